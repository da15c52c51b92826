"""A plan: the result of a solve, which says what to run."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from msgspec import UNSET, UnsetType

from templates_lib.values.engine_set import UNKNOWN
from templates_lib.values.offer import Market
from templates_lib.values.placement import Placement
from templates_lib.values.step_time_basis import StepTimeBasis
from templates_lib.values.template import ServingTemplate, Software


@dataclass(frozen=True, slots=True)
class PlannedInstance:
    """`count` equal instances of a template in one zone and market."""

    template_id: str
    model: str
    phase: str
    zone: str
    market: Market
    count: int
    running: int
    """Number of these instances that run already."""
    nodes: dict[str, int]
    """Nodes of one instance: node configuration → how many."""
    units_per_s: dict[str, float]
    """Certified capacity of one instance by work class, at the mixture of operating points that the plan uses."""
    usd_per_hour: float
    """Rent of all `count` instances at the offers used, with the disks of their nodes."""
    placement: Placement | None = None
    software: Software | None = None
    """Software of the template: with `placement` and `nodes` it lets anyone recompute `template_id`."""
    disk_gib: int = 0
    """Disk of each node, as it is charged; 0: none is."""
    engines: str = UNKNOWN
    """Engines that its nodes have (`engine_set`): they say how long it takes to start, and how large its disks are."""
    usd_per_hour_by_member: dict[str, float] | UnsetType = UNSET
    """Model → what it pays of `usd_per_hour`, which all of them together do. Unset: nobody shares its nodes, and the
    plan's hash is what it was before some did."""

    def with_template(self, template: ServingTemplate) -> "PlannedInstance":
        """The same with what `template` runs: what a plan that leaves the planner carries."""
        return replace(self, placement=template.placement, software=template.software)


@dataclass(frozen=True, slots=True)
class PlannedOffer:
    offer: str
    node_config: str
    nodes: int
    held: int
    """Nodes of it that are rented already."""
    usd_per_hour: float
    """Price of one node."""


@dataclass(frozen=True, slots=True)
class Flow:
    route: str
    zones: tuple[str, ...]
    """The zone of each leg; empty strings in mode `paper`."""
    requests_per_s: float
    traffic_usd_per_hour: float


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why the plan is as it is. `kind` is for programs, `text` for people."""

    kind: str
    text: str
    subject: str = ""
    """Subject of the reason: an offer or pool key, a demand, a template id."""
    usd_per_hour: float | None = None
    verified: bool = False
    """The figure comes from a re-solve, not from an LP dual."""


@dataclass(frozen=True, slots=True)
class Attained:
    """How one work class fared when a plan was simulated at its planned rates."""

    share: float
    """Share of its requests that were within the objective."""
    percentile: float
    """Share that is promised, percent."""
    requests: int
    """Number that were counted."""
    seed: int

    @property
    def is_kept(self) -> bool:
        """Tell whether the promise was kept by one standard error of the promised share at least."""
        return self.share >= self.percentile / 100 + self.error

    @property
    def error(self) -> float:
        """Standard error that the promised share has among so many requests, where they are independent."""
        promised = self.percentile / 100
        return math.sqrt(promised * (1 - promised) / max(self.requests, 1))


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan is a value; applying it is somebody else's effect.

    `usd_per_hour` is rent, disks and priced traffic. `init_usd` is K · price of what is new, beside it. The objective
    that `bound` and `gap` speak of is usd_per_hour + init_usd + spot_risk_usd_per_hour at the least unmet demand.
    """

    id: str
    snapshot_version: str
    library_version: str
    policy: str
    """`medley`, or the baseline that made it."""
    instances: tuple[PlannedInstance, ...]
    offers: tuple[PlannedOffer, ...]
    flows: tuple[Flow, ...]
    usd_per_hour: float
    rent_usd_per_hour: float
    traffic_usd_per_hour: float
    init_usd: float
    spot_risk_usd_per_hour: float
    unmet: dict[str, float]
    """Demand key → requests per second that the plan does not serve; only entries > 0."""
    objective: float
    bound: float
    gap: float
    solve_s: float
    status: str
    """`optimal` (its gap is within the solver's tolerance, not necessarily 0), `feasible` (it is not), `partial` (some
    demand is unmet)."""
    duals: dict[str, float] = field(default_factory=dict)
    """LP shadow prices by row name, $/h per unit."""
    reasons: tuple[Reason, ...] = ()
    statistics: dict[str, float] = field(default_factory=dict)
    """Columns, iterations, branch-and-bound nodes and the like, for benches."""
    attainment: dict[str, Attained] = field(default_factory=dict)
    """By work class, of those whose objectives are promised."""
    disks_usd_per_hour: float = 0.0
    """Of all its nodes; `rent_usd_per_hour` is without them."""
    step_times: tuple[StepTimeBasis, ...] = ()
    """What the step times of its GPUs rest on; empty where nobody knows, as of plans that were made before it was
    kept."""

    def nodes(self) -> Counter[str]:
        """Count the nodes that the plan uses, by offer key."""
        return Counter({each.offer: each.nodes for each in self.offers})
