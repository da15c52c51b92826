"""Result of a simulation: what became of every request, and of the fleet, epoch by epoch."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.slo import Slo


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedModel:
    name: str
    """As in `Requests.apps`; a part for long prompts is a model of its own."""
    slo: Slo
    work_classes: Mapping[str, tuple[float, float, float]]
    """Work class → its units that a request, a prompt token and an output token bring."""
    shape: WorkloadShape | None
    """Lengths of its requests; None: it makes no text, and a request counts as one token."""

    @property
    def makes_text(self) -> bool:
        return self.shape is not None


@dataclass(frozen=True, slots=True)
class Epoch:
    """The time from one plan to the next, or to the end. Rates are means over it."""

    from_s: float
    until_s: float
    plan_id: str
    """Id of the plan that the fleet was held to at its start; empty: none."""
    planned_usd_per_hour: float
    """Cost of that plan: rent and traffic."""
    init_usd_per_hour: float
    """Start-ups of that plan, spread over the adjustment interval (Coral, section 6.1)."""
    traffic_usd_per_hour: float
    """Traffic of that plan."""
    spent_usd: float
    """What was paid for nodes, by the second at their offers' prices, whatever the plan said."""
    solve_s: float
    """Wall seconds that planning took."""
    planned_requests_per_s: Mapping[str, float]
    """App → demand that was planned for."""
    unmet_requests_per_s: Mapping[str, float]
    """App → of it, what the plan leaves unserved; only entries above 0."""
    offered_requests_per_s: Mapping[str, float]
    """App → requests that came."""
    capacity_units_per_s: Mapping[str, float]
    """Work class → certified capacity of the instances that were ready."""
    demand_units_per_s: Mapping[str, float]
    """Work class → what the offered requests need of it, if all of them are served so."""

    @property
    def spent_usd_per_hour(self) -> float:
        seconds = self.until_s - self.from_s
        return 3600 * self.spent_usd / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class NodeSpan:
    """A node's life, as far as it was paid for. Times are seconds since the start; before 0 is not counted."""

    name: str
    instance: str
    offer: str
    node_config: str
    zone: str
    market: str
    from_s: float
    until_s: float
    """The simulation's length, for one that lives on."""
    spent_usd: float


@dataclass(frozen=True, slots=True)
class InstanceSpan:
    """An instance's life in the plane. Times as in `NodeSpan`; None: it did not come to that."""

    id: str
    app: str
    phase: str
    """Phases of its work classes."""
    template: str
    zone: str
    market: str
    nodes: Mapping[str, int]
    """Node configuration → how many."""
    gpus: int
    requested_s: float
    ready_s: float | None
    drain_s: float | None
    gone_s: float | None


@dataclass(frozen=True, slots=True)
class SimulationEvent:
    at_s: float
    """Since the start; below 0: while the fleet was warmed up."""
    kind: str
    """`plan.made`, `instance.<state>`, `node.taken`, `fleet.trouble`."""
    subject: str
    """Id of what it happened to."""
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What was simulated, for a report's head."""

    name: str
    fleet: str
    strategy: str
    demand: str
    """`spec` or `oracle`."""
    start: str
    """ISO 8601, UTC."""
    length_s: float
    seed: int
    replan_s: float
    cost_model: str
    """What step times and capacities rest on: `measured`, `estimated`, or which of both for what."""
    sources: tuple[str, ...]
    """Sources of traffic, prices and availability, in words."""
    notes: tuple[str, ...]
    """What a reader should know about them."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    facts: Facts
    models: tuple[SimulatedModel, ...]
    requests: Requests
    served: Served
    fleet: FleetTimeline
    """What served; those of `instances` that became ready, by id."""
    epochs: tuple[Epoch, ...]
    instances: tuple[InstanceSpan, ...]
    nodes: tuple[NodeSpan, ...]
    """Fleet composition at t: those whose span holds t."""
    events: tuple[SimulationEvent, ...]
    spent_usd: float
    """What was paid for nodes, from 0 to the end."""
    plane_wall_s: float
    """Wall seconds of the control plane, planning among them."""
    serving_wall_s: float
    """Wall seconds of serving."""
