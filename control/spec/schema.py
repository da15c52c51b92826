"""What a spec file may say: `apiVersion: medley/v1`, `kind: Fleet`.

Every field's default is what the file means when it leaves the field out.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from control.spec.names import Names
from control.spec.numbers import Count, NonNegative, NonNegativeCount, Number, Positive, Share, Whole
from templates_lib.hardware import node_config_from_id
from templates_lib.nearest_name import nearest_name
from templates_lib.offer import Market
from templates_lib.settings import Mode, Settings, Survive
from templates_lib.work import Phase

DEFAULT = Settings()
LOCAL = "local"
"""The cloud whose nodes are processes on this machine."""
OWNED = "owned"
"""The cloud of machines that somebody has, reached over SSH."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


def _known(kind: str, name: str, valid: frozenset[str]) -> str:
    if name not in valid:
        raise ValueError(f"unknown {kind} {name!r}; {nearest_name(name, valid)}")
    return name


def _names(info: ValidationInfo) -> Names:
    names = info.context
    assert isinstance(names, Names)  # noqa: S101 - read() always passes them
    return names


def is_path(name: str) -> bool:
    """Whether a model or shape is given as a file, not as a name of the catalogue."""
    return "/" in name or name.endswith((".json", ".csv", ".csv.gz"))


def _gpu(name: str, info: ValidationInfo) -> str:
    return _known("GPU", name, _names(info).gpus)


def _cloud(name: str, info: ValidationInfo) -> str:
    return _known("cloud", name, frozenset(_names(info).regions))


def _kind_name(name: str, info: ValidationInfo) -> str:
    if name in _names(info).gpus:
        raise ValueError(f"{name!r} is a GPU: a kind of local node needs another name")
    return name


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SloSection(Section):
    ttft_ms: Positive
    tpot_ms: Positive
    ttft_ms_per_1k_prompt_tokens: NonNegative = 0.0
    percentile: Annotated[Number, Field(gt=0, lt=100)] = 99.0
    max_prompt_tokens: NonNegativeCount = 0


class ForecastSection(Section):
    """How demand that is metered is carried on."""

    policy: Literal["last", "ewma", "seasonal"] = "ewma"
    half_life_minutes: Positive = 15.0
    """Of the recent mean, and of the level of a season."""
    period: Literal["day", "week"] = "day"
    """Of a season."""
    quantile: Annotated[Number, Field(ge=0.5, lt=1)] | None = 0.9
    """Head-room: what the forecast would have needed to be enough in this share of the window; null: none."""
    window_hours: Positive = 24.0


class HoldSection(Section):
    """Requests that wait at a gateway while nothing serves a model whose demand is metered."""

    max_requests: NonNegativeCount = 100
    timeout_s: Annotated[Positive, Field(le=3600)] = 600.0


class DemandSection(Section):
    """A fixed rate, the rate of a trace times `scale`, or what gateways meter. `demand: metered` is short for the last,
    with all else as it is by default."""

    requests_per_s: Number | None = None
    trace: str | None = None
    """A shipped rate series, or path of a trace file with arrival times."""
    at: Literal["mean", "peak"] = "mean"
    """Which rate of a series: the mean, or its busiest window (a trace file has windows of a minute)."""
    scale: Positive = 1.0
    metered: bool = False
    forecast: ForecastSection = ForecastSection()
    floor_requests_per_s: NonNegative = 0.0
    """Planned for whatever the forecast says; 0: the model may go to zero."""
    ceiling_requests_per_s: Positive | None = None
    idle_minutes: Positive = 30.0
    """Without a request for as long, and less than one to be expected, the model runs nothing."""
    hold: HoldSection = HoldSection()
    priority: Whole = 0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: object) -> object:
        return {"metered": True} if given == "metered" else given

    @field_validator("requests_per_s")
    @classmethod
    def _some(cls, rate: float | None) -> float | None:
        if rate is not None and rate < 0:
            raise ValueError(f"demand must be above 0, is {rate:g}")
        if rate == 0:
            raise ValueError("demand is 0, so nothing is to be planned for this model: give a rate or remove the model")
        return rate

    @field_validator("trace")
    @classmethod
    def _trace(cls, name: str | None, info: ValidationInfo) -> str | None:
        return name if name is None or is_path(name) else _known("rate series", name, _names(info).rates)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.requests_per_s is not None) + (self.trace is not None) + self.metered != 1:
            raise ValueError("give one of requests_per_s, trace and metered")
        of_metered = {"forecast", "floor_requests_per_s", "ceiling_requests_per_s", "idle_minutes", "hold"}
        if not self.metered and (stray := sorted(of_metered & self.model_fields_set)):
            raise ValueError(f"{', '.join(stray)} belong to metered demand")
        if self.ceiling_requests_per_s is not None and self.ceiling_requests_per_s < self.floor_requests_per_s:
            raise ValueError(f"ceiling {self.ceiling_requests_per_s:g} is below floor {self.floor_requests_per_s:g}")
        if self.trace is None and {"scale", "at"} & self.model_fields_set:
            raise ValueError("scale and at belong to trace; put the product into requests_per_s")
        return self


class ModelSection(Section):
    model: str
    """Name in the catalogue, or path of a Hugging Face config.json relative to the spec file."""
    name: Name | None = None
    """Unique in the fleet; default: the model's name."""
    slo: SloSection
    workload: str
    """A shipped workload shape, or path of a trace file with lengths."""
    demand: DemandSection
    disaggregated: bool = True
    aggregated: bool = False
    engine: Literal["vllm", "torch"] | None = None
    """Default: torch in a fleet that has local nodes, else vllm."""
    weights: Annotated[str, Field(pattern=r"^(package|path):.+$", max_length=256)] | None = None
    """`package:NAME` or `path:PATH` where nodes find them; a relative path is relative to the spec file."""

    @field_validator("model")
    @classmethod
    def _model(cls, name: str, info: ValidationInfo) -> str:
        return name if is_path(name) else _known("model", name, _names(info).models)

    @field_validator("workload")
    @classmethod
    def _workload(cls, name: str, info: ValidationInfo) -> str:
        return name if is_path(name) else _known("workload shape", name, _names(info).shapes)

    @model_validator(mode="after")
    def _served(self) -> Self:
        if not (self.disaggregated or self.aggregated):
            raise ValueError("set disaggregated or aggregated: a model with neither cannot be served")
        if is_path(self.model) and self.name is None:
            raise ValueError("give the model a name: its architecture comes from a file")
        return self

    @property
    def model_id(self) -> str:
        """Of the architecture: what weights and profiles are known by."""
        return self.served_name if is_path(self.model) else self.model

    @property
    def served_name(self) -> str:
        return self.name or self.model

    @property
    def phases(self) -> tuple[Phase, ...]:
        split = (Phase.PREFILL, Phase.DECODE) if self.disaggregated else ()
        return (*split, Phase.AGGREGATED) if self.aggregated else split


class KindSection(Section):
    """A kind of local node: a share of this machine."""

    name: Annotated[Name, AfterValidator(_kind_name)]
    cpu_cores: Positive
    memory_mib: Count
    """For weights and KV cache; what the node's processes need comes on top."""
    stock: Count
    usd_per_hour: Positive


def _node_config(name: str) -> str:
    try:
        return node_config_from_id(name).id
    except LookupError as error:
        raise ValueError(str(error)) from None


class HostSection(Section):
    """A machine of one's own, which is one node."""

    name: Name
    """Unique among all hosts of all fleets."""
    address: str
    port: Annotated[Whole, Field(ge=1, le=65535)] = 22
    user: str
    host_key: str
    """Its public key, type and key. No other is accepted."""
    key_file: str | None = None
    """The private key to log in with, relative to the spec file; default: what an SSH agent holds."""
    node_config: Annotated[str, AfterValidator(_node_config)]
    """What the machine is, such as `H100:8/n200`."""
    zone: Name = OWNED
    """Hosts of a zone reach each other. Those of one zone and node_config are a pool, for all fleets."""
    usd_per_hour: NonNegative = 0.0
    """Stated, or sunk: 0."""
    python: Annotated[str, Field(max_length=256)] = ""
    """Of the environment that Medley's agent is installed in on it; default: `python3`."""


class CloudSection(Section):
    cloud: Annotated[str, AfterValidator(_cloud)]
    regions: Annotated[list[str], Field(min_length=1)] | None = None
    """Default: every region that the offers know."""
    gpus: Annotated[list[Annotated[str, AfterValidator(_gpu)]], Field(min_length=1)] | None = None
    """Default: every GPU."""
    counts: Annotated[list[Count], Field(min_length=1)] | None = None
    """GPUs per node; default: every size that is sold."""
    markets: Annotated[list[Market], Field(min_length=1)] = [Market.ON_DEMAND]
    derived: bool = False
    """Also sizes of `counts` that are not sold, priced per GPU from the nearest sold size and labelled so."""
    kinds: Annotated[list[KindSection], Field(min_length=1)] | None = None
    """Of the local cloud; default: those of `control.cloud.local.kinds`."""
    hosts: Annotated[list[HostSection], Field(min_length=1, max_length=1000)] | None = None
    """Of cloud `owned`."""

    @model_validator(mode="after")
    def _local(self) -> Self:
        given = self.model_fields_set - {"cloud", "kinds"}
        if self.cloud == LOCAL and given:
            raise ValueError(f"the local cloud has kinds, and no {', '.join(sorted(given))}")
        if self.cloud != LOCAL and self.kinds is not None:
            raise ValueError(f"kinds are of cloud {LOCAL!r}; what {self.cloud} has is known")
        names = [kind.name for kind in self.kinds or ()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"kinds must have different names; {', '.join(twice)} occurs twice")
        return self

    @model_validator(mode="after")
    def _owned(self) -> Self:
        given = self.model_fields_set - {"cloud", "hosts"}
        if self.cloud == OWNED and (given or self.hosts is None):
            raise ValueError(f"cloud {OWNED!r} has hosts, and no {', '.join(sorted(given)) or 'other keys'}")
        if self.cloud != OWNED and self.hosts is not None:
            raise ValueError(f"hosts are of cloud {OWNED!r}; {self.cloud} rents")
        names = [host.name for host in self.hosts or ()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"hosts must have different names; {', '.join(twice)} occurs twice")
        prices: dict[tuple[str, str], float] = {}
        for host in self.hosts or ():
            price = prices.setdefault((host.zone, host.node_config), host.usd_per_hour)
            if price != host.usd_per_hour:
                raise ValueError(
                    f"the {host.node_config} in {host.zone} cost {price:g} and {host.usd_per_hour:g} $/h: "
                    "state one price, or put them into different zones"
                )
        return self

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if self.derived and not (self.counts and self.gpus):
            raise ValueError("derived sizes need gpus and counts, so that what is made up is spelled out")
        return self


class OffersSection(Section):
    """Beside the shipped prices of `clouds`. Paths are relative to the spec file."""

    files: list[str] = []
    """YAML files of kind Offers: machines of one's own, negotiated prices. A later file's price replaces an earlier."""
    availability: str | None = None
    """CSV file: zone,config,market,available."""
    by_region: bool = False
    """The Coral paper's market: a region is one zone that sells each GPU and size once, and no traffic is priced."""


class QuotaSection(Section):
    """A limit of an account that nodes held and new count against: vCPUs at AWS and Azure, GPUs elsewhere."""

    cloud: Annotated[str, AfterValidator(_cloud)]
    region: str
    family: str
    """The cloud's own name of the quota, such as `G-VT` or `NVIDIA_L4_GPUS`."""
    limit: NonNegative
    market: Market = Market.ON_DEMAND


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
    replicas: dict[str, ReplicasSection] = {}
    """By work class: `<model>/<phase>`."""
    survive: Survive = DEFAULT.survive
    survive_share: Share = DEFAULT.survive_share
    startup_minutes: NonNegative = DEFAULT.startup_minutes
    adjustment_interval_minutes: Positive = DEFAULT.adjustment_interval_minutes
    restart_hours: NonNegative = DEFAULT.restart_hours


class DisruptionSection(Section):
    """How much of a fleet may be moved voluntarily within a window. Failures are not counted."""

    max_instances: NonNegativeCount | None = None
    max_share: Share | None = None
    """Of the instances that run; one may always be moved."""
    window_minutes: Positive = 60.0


class ReconcileSection(Section):
    """How the fleet is kept on its plan."""

    replan_minutes: Positive = 5.0
    max_new_nodes_per_hour: NonNegativeCount | None = None
    disruption: DisruptionSection = DisruptionSection()
    payback_minutes: Positive | None = 15.0
    """A move that only saves money has to pay back its start-up and its drain within this time; None: all are made."""
    payback_share: Share | None = 0.15
    """Instances that may be moved within an hour only to save money, of those that run; one always may; None: any."""


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
    clouds: list[CloudSection] = []
    """What to take from the dated snapshot of real prices that ships with Medley."""
    offers: OffersSection = OffersSection()
    quotas: list[QuotaSection] = []
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

    @property
    def is_local(self) -> bool:
        """Whether nodes of this machine may be used."""
        return any(c.cloud == LOCAL for c in self.clouds)
