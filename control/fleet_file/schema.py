"""What a spec file may say: `apiVersion: medley/v1`, `kind: Fleet`.

Every field's default is what the file means when it leaves the field out.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from control.fleet_file.cloud_section import CloudName, CloudSection
from control.fleet_file.model_section import ModelSection
from control.fleet_file.numbers import Count, NonNegative, NonNegativeCount, Number, Positive, Share, Whole
from control.fleet_file.reconcile_section import ReconcileSection
from control.fleet_file.section import Name, Section
from templates_lib.values.clouds import LOCAL, OWNED
from templates_lib.values.offer import Market
from templates_lib.values.settings import Mode, Settings, Survive

DEFAULT = Settings()


class ReplicasSection(Section):
    min: NonNegativeCount = 0
    max: NonNegativeCount | None = None

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self


class PolicySection(Section):
    mode: Mode = DEFAULT.mode
    utilisation_cap: Annotated[Number, Field(gt=0, le=1)] = DEFAULT.utilisation_cap
    max_usd_per_hour: NonNegative | None = None
    max_spot_share: Share = DEFAULT.guardrails.max_spot_share
    max_zone_share: Share = DEFAULT.guardrails.max_zone_share
    max_unproven_nodes: NonNegativeCount = DEFAULT.guardrails.max_unproven_nodes
    replicas: dict[str, ReplicasSection] = Field(default={})
    """By work class: `<model>/<phase>`."""
    survive: Survive = DEFAULT.survive
    survive_share: Share = DEFAULT.survive_share
    startup_minutes: NonNegative = DEFAULT.startup_minutes
    adjustment_interval_minutes: Positive = DEFAULT.adjustment_interval_minutes
    restart_hours: NonNegative = DEFAULT.restart_hours


class OffersSection(Section):
    """Beside the shipped prices of `clouds`. Paths are relative to the spec file."""

    files: list[str] = Field(default=[])
    """YAML files of kind Offers: machines of one's own, negotiated prices. A later file's price replaces an earlier."""
    availability: str | None = None
    """CSV file: zone,config,market,available."""
    by_region: bool = False
    """The Coral paper's market: a region is one zone that sells each GPU and size once, and no traffic is priced."""


class QuotaSection(Section):
    """A limit of an account that nodes held and new count against: vCPUs at AWS and Azure, GPUs elsewhere."""

    cloud: CloudName
    region: str
    family: str
    """The cloud's own name of the quota, such as `G-VT` or `NVIDIA_L4_GPUS`."""
    limit: NonNegative
    market: Market = Market.ON_DEMAND


class SolverSection(Section):
    n_max: Annotated[Whole, Field(ge=1, le=8)] = 6
    """Nodes of a template at most."""
    rho: Positive = 12.0
    """GPU memory of a template at most, in multiples of the model's weights as served."""
    slo_split: Literal["even", "uneven"] = "even"
    """How a pipeline's latency budget is split over its stages."""
    seed: NonNegativeCount = DEFAULT.seed
    gap: Share = DEFAULT.limits.gap
    incumbent_columns: Count = DEFAULT.limits.incumbent_columns
    proof_columns: Count = DEFAULT.limits.proof_columns
    nodes: Count = DEFAULT.limits.nodes
    simplex_iterations: Count = DEFAULT.limits.simplex_iterations
    wall_clock_s: Positive | None = None


class FleetFile(Section):
    apiVersion: Literal["medley/v1"]  # noqa: N815 - as in every file of this kind
    kind: Literal["Fleet"]
    name: Name
    models: Annotated[list[ModelSection], Field(min_length=1)]
    clouds: list[CloudSection] = Field(default=[])
    """What to take from the dated snapshot of real prices that ships with Medley."""
    offers: OffersSection = OffersSection()
    quotas: list[QuotaSection] = Field(default=[])
    policy: PolicySection = PolicySection()
    reconcile: ReconcileSection = ReconcileSection()
    solver: SolverSection = SolverSection()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        names = [m.served_name for m in self.models]
        twice = sorted({n for n in names if names.count(n) > 1})
        if not (self.clouds or self.offers.files):
            raise ValueError("name at least one of clouds or offers.files: without an offer there is nothing to plan")
        if twice:
            raise ValueError(f"models must have different names; {', '.join(twice)} occurs twice (set `name`)")
        places = {(model.model_id, model.weights) for model in self.models if model.weights is not None}
        elsewhere = sorted({one for one, _ in places if [each for each, _ in places].count(one) > 1})
        if elsewhere:
            raise ValueError(f"name one place for the weights of {', '.join(elsewhere)}")
        for cloud, what in ((LOCAL, "kinds"), (OWNED, "hosts")):
            if [c.cloud for c in self.clouds].count(cloud) > 1:
                raise ValueError(f"name cloud {cloud!r} once, with all its {what}")
        return self
