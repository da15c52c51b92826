"""Schema of a spec file: `apiVersion: medley/v1`, `kind: Fleet`.

Every field's default is what the file means when it leaves the field out.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from control.fleet_file.app_section import AppSection
from control.fleet_file.cloud_section import CloudName, CloudSection
from control.fleet_file.model_section import ModelSection
from control.fleet_file.network_section import NetworkSection
from control.fleet_file.numbers import Count, NonNegative, NonNegativeCount, Number, Positive, Share, Whole
from control.fleet_file.reconcile_section import ReconcileSection
from control.fleet_file.section import FilePath, Name, SpecSection, check_different
from policies.pools.scaling_settings import ScalingSettings
from templates_lib.apps.app import serving_id
from templates_lib.sources.graph_record import DISPATCH
from templates_lib.values.clouds import LOCAL, OWNED
from templates_lib.values.offer import Market
from templates_lib.values.settings import Mode, Settings, SloSplit, StepTimes, Survive

DEFAULT = Settings()


class ReplicasSection(SpecSection):
    """Bounds on the instances that serve a work class."""

    min: NonNegativeCount = 0
    """Instances at least."""
    max: NonNegativeCount | None = None
    """Instances at most. Default: any number."""

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self


class UnitsSection(SpecSection):
    """Units: nodes that several models share. They are planned for all clouds, and started on the local one."""

    max_members: Annotated[Whole, Field(ge=2, le=8)] = 8
    """Models of a unit at most."""
    dispatch: Literal["in-turn-v1"] = "in-turn-v1"
    """How the work of the members of a unit is put in order, which its capacity is certified under: one job after the
    other, each on all of the GPUs."""


class BurstSection(SpecSection):
    """What is asked of an app beyond what its plan has is planned for at once, not with the next plan."""

    hold_minutes: Annotated[Positive, Field(le=1440)] = 3.0
    """How long it is planned for once no more is asked than the forecast of metered demand knows of."""
    headroom: Share = 0.2
    """By how much more than the highest rate of that time is planned for."""
    threshold: Annotated[Number, Field(gt=0, lt=1)] = 0.99
    """Share of the last minute's answers that are to be in time, by the objectives of their request type, where these
    promise no less (`slo.percentile`); more executors are planned for where fewer are, though all that are planned
    serve."""

    @property
    def value(self) -> ScalingSettings:
        return ScalingSettings(threshold=self.threshold, calm_s=60 * self.hold_minutes, band=self.headroom)


class PoolsSection(SpecSection):
    """Pools by stage: the executors of an app that encode, and those that write."""

    dispatch: Literal["request-static-v1", "late-pull-v1"] = "request-static-v1"
    """How requests of apps are spread over executors that do the same: `request-static-v1` takes them in turn, by
    capacity; `late-pull-v1` gives each picture or sound to the encoder that is done first, has those of a large request
    let others pass, and chooses the decoder that is done first once all is encoded."""
    burst: BurstSection | None = None
    """Plan between two plans for load of apps that their plan has too few executors for, or is late with, where their
    demand is metered. Default: it waits for the next plan."""


class PolicySection(SpecSection):
    """Limits and preferences of a plan."""

    mode: Mode = DEFAULT.mode
    """`zones`: work that belongs together meets in a zone, and traffic between zones is priced; `paper`: any instance
    feeds any other for free."""
    utilisation_cap: Annotated[Number, Field(gt=0, le=1)] = DEFAULT.utilisation_cap
    """Share of an instance's certified capacity that a plan may use."""
    step_time_margin: Annotated[Number, Field(ge=0, le=5)] = 1.0
    """Median errors of step times that the caps leave room for: a template whose times are off by x in the median is
    used 1 / (1 + margin · x) as much."""
    max_usd_per_hour: NonNegative | None = None
    """Limit on rent, disks and traffic. Default: none."""
    max_spot_share: Share = DEFAULT.guardrails.max_spot_share
    """Share of each work class's demand that spot capacity may cover."""
    max_zone_share: Share = DEFAULT.guardrails.max_zone_share
    """Share of each work class's demand that one zone may cover."""
    max_unproven_nodes: NonNegativeCount = DEFAULT.guardrails.max_unproven_nodes
    """New nodes to ask of an offer whose stock is unknown."""
    replicas: dict[str, ReplicasSection] = Field(default={})
    """Bounds by work class, `MODEL/PHASE`."""
    pools: PoolsSection = PoolsSection()
    units: UnitsSection | None = None
    """Let models share nodes. Default: each has its own."""
    survive: Survive = DEFAULT.survive
    """Whose loss the fleet has to bear."""
    survive_share: Share = DEFAULT.survive_share
    """Share of the demand that stays covered after the loss."""
    startup_minutes: NonNegative = DEFAULT.startup_minutes
    """Minutes from the request for a node to its first token, beside those that installing its engine takes."""
    adjustment_interval_minutes: Positive = DEFAULT.adjustment_interval_minutes
    """Minutes over which a start has to pay."""
    restart_hours: NonNegative = DEFAULT.restart_hours
    """Hours of an instance that one interruption of a spot node costs."""


class OffersSection(SpecSection):
    """Offers besides those of `clouds`, and the form in which offers are read."""

    files: list[FilePath] = Field(default=[])
    """YAML files of kind Offers, relative to the spec file: machines of one's own, negotiated prices. A later file's
    price replaces an earlier."""
    availability: FilePath | None = None
    """CSV file, relative to the spec file: zone,config,market,available."""
    by_region: bool = False
    """Coral's market: a region is one zone that sells each GPU and size once, and no traffic is priced."""
    disks: bool = True
    """Charge rented nodes for their disks, by the list prices of their clouds; `false`: rent alone, as the Coral paper
    reckons."""


class QuotaSection(SpecSection):
    """A limit of an account that nodes held and new count against: vCPUs at AWS and Azure, GPUs elsewhere."""

    cloud: CloudName
    region: str
    """Region in which the limit holds."""
    family: str
    """The cloud's own name of the quota, such as `G-VT` or `NVIDIA_L4_GPUS`."""
    limit: NonNegative
    """vCPUs at AWS and Azure, GPUs elsewhere."""
    market: Market = Market.ON_DEMAND
    """The market that the limit holds for."""


class SolverSection(SpecSection):
    """Effort of the search for templates and plans."""

    n_max: Annotated[Whole, Field(ge=1, le=8)] = 6
    """Nodes of a template at most."""
    rho: Positive = 12.0
    """GPU memory of a template at most, in multiples of the model's weights as served."""
    slo_split: SloSplit = SloSplit.EVEN
    """Split of a latency budget over the stages of a placement."""
    step_times: StepTimes = StepTimes.BEST
    """Source of step times that were not measured here: a fitted estimate, measured kernels, or the better of them."""
    seed: NonNegativeCount = DEFAULT.seed
    """Seed of the solver: one snapshot and one seed give one plan."""
    gap: Share = DEFAULT.limits.gap
    """Stop when the cost is proven to be this close to the least."""
    incumbent_columns: Count = DEFAULT.limits.incumbent_columns
    """Columns of the program that looks for a good plan."""
    proof_columns: Count = DEFAULT.limits.proof_columns
    """Columns of the program that proves it."""
    nodes: Count = DEFAULT.limits.nodes
    """Branch-and-bound nodes of each program."""
    simplex_iterations: Count = DEFAULT.limits.simplex_iterations
    """Simplex iterations of all programs of a solve."""
    wall_clock_s: Positive | None = None
    """Seconds after which the best plan so far is taken; with it, plans may differ from run to run. Default: none."""


class FleetFile(SpecSection):
    apiVersion: Literal["medley/v1"]  # noqa: N815 - as in every file of this kind
    kind: Literal["Fleet"]
    name: Name
    models: list[ModelSection] = Field(default=[])
    """Text models to serve, by the name that clients use."""
    apps: list[AppSection] = Field(default=[])
    """Any-to-any models, which take or make images and audio. Those with `weights` are started."""
    clouds: list[CloudSection] = Field(default=[])
    """Clouds to rent from, with the parts that may be rented."""
    offers: OffersSection = OffersSection()
    quotas: list[QuotaSection] = Field(default=[])
    """Limits of your accounts."""
    network: NetworkSection = NetworkSection()
    policy: PolicySection = PolicySection()
    reconcile: ReconcileSection = ReconcileSection()
    solver: SolverSection = SolverSection()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not (self.models or self.apps):
            raise ValueError("name at least one of models and apps: without either there is nothing to serve")
        if not (self.clouds or self.offers.files):
            raise ValueError("name at least one of clouds or offers.files: without an offer there is nothing to plan")
        check_different("models", [model.served_name for model in self.models], more=" (set `name`)")
        names = [*(model.served_name for model in self.models), *(app.name for app in self.apps)]
        check_different("models and apps", names)
        if self.policy.units is None and (only := [m.served_name for m in self.models if m.share == "only"]):
            raise ValueError(f"{', '.join(only)}: `share: only` wants `policy.units: {{}}`, which lets models share")
        promised = (app.name for app in self.apps if any(kind.slo.percentile is not None for kind in app.request_types))
        if (dispatch := self.policy.pools.dispatch) != DISPATCH and (app := next(promised, None)):
            raise ValueError(
                f"{app}: slo.percentile is promised by simulation, and apps are simulated under {DISPATCH} alone, not "
                f"under {dispatch}: remove it, or set policy.pools.dispatch to {DISPATCH}"
            )
        # Routing tables and metrics have a model for each request type of an app.
        parts = [serving_id(app.name, kind.type) for app in self.apps for kind in app.request_types]
        check_different("models, apps and request types of apps (APP-TYPE)", [*names, *parts])
        places = {(model.model_id, model.weights) for model in self.models if model.weights is not None}
        elsewhere = sorted({one for one, _ in places if [each for each, _ in places].count(one) > 1})
        if elsewhere:
            raise ValueError(f"name one place for the weights of {', '.join(elsewhere)}")
        for cloud, what in ((LOCAL, "kinds"), (OWNED, "hosts")):
            if [c.cloud for c in self.clouds].count(cloud) > 1:
                raise ValueError(f"name cloud {cloud!r} once, with all its {what}")
        return self
