"""Log of a simulated control plane: its plans, steps, routing tables and troubles."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agents.channels.address import Address
from control.diff.target import Column, Target, targets
from control.fleet.order import column
from control.fleet.routing import Routing
from control.lifecycle.history import PastTransition
from control.planning.report import PlanReport
from control.reconcile.fleet_planner import Solved
from control.simulator.result import SimulationEvent
from control.simulator.serving.zoneless_flows import anywhere
from policies.routing_table import RoutedModel
from templates_lib.apps.app import serving_id
from templates_lib.values.instance import Instance


@dataclass(frozen=True, slots=True)
class PlanMade:
    """What is kept of a solve."""

    at_s: float
    plan_id: str
    usd_per_hour: float
    init_usd: float
    traffic_usd_per_hour: float
    solve_s: float
    """Wall seconds of the solver."""
    demand: Mapping[str, float]
    """App → requests per second."""
    unmet: Mapping[str, float]
    """The same, of those > 0."""
    cost_model: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, report: PlanReport, at_s: float) -> "PlanMade":
        plan, demands = report.plan, report.snapshot.demand
        apps = {demand.key: serving_id(demand.app, demand.request_type) for demand in demands}
        return cls(
            at_s,
            plan.id,
            plan.usd_per_hour,
            plan.init_usd,
            plan.traffic_usd_per_hour,
            plan.solve_s,
            {apps[demand.key]: demand.requests_per_s for demand in demands},
            {apps[key]: rate for key, rate in plan.unmet.items()},
            report.basis.cost_model,
            report.basis.notes,
        )

    @property
    def event(self) -> SimulationEvent:
        return SimulationEvent(self.at_s, "plan.made", self.plan_id, f"{self.usd_per_hour:.2f} $/h")


class PlaneLog:
    """Notes routings, as a writer of routing tables does (`control.fleet.publisher`), and all else that happens."""

    def __init__(self, start: datetime, seconds: Callable[[], float]) -> None:
        """`seconds`: the plane's clock, since `start`."""
        self._start = start
        self.steps: list[tuple[float, PastTransition]] = []
        self.plans: list[PlanMade] = []
        self.tables: list[tuple[float, tuple[RoutedModel, ...]]] = []
        self.wanted: dict[str, Target] = {}
        """Instance → what it is, of those that were ever asked for."""
        self._columns: dict[Column, Target] = {}
        self.troubles: list[tuple[float, str]] = []
        """Moments from which the fleet could not be planned or run, and why; empty: from then on it could."""
        self._seconds = seconds
        self._routing: Routing | None = None

    def planned(self, solved: Solved) -> None:
        """A plan was made now."""
        self.plans.append(PlanMade.of(solved.report, self._seconds()))
        for each in targets(solved.plan):
            self._columns.setdefault(each.column, each)

    def met(self, instances: Iterable[Instance]) -> None:
        """Instances that are there now."""
        for instance in instances:
            if instance.id not in self.wanted and (known := self._columns.get(column(instance))) is not None:
                self.wanted[instance.id] = known

    def serve(self, fleet: str, routing: Routing) -> None:  # noqa: ARG002 - there is one
        self._routing = routing

    def drop(self, fleet: str) -> None:  # noqa: ARG002
        self._routing = None

    def taken(self) -> Mapping[str, Mapping[str, str]]:
        return {}  # there is one fleet

    def publish(self, ready: Iterable[tuple[str, Target, Mapping[str, Address]]]) -> None:
        there = [(name, what) for name, what, _ in ready]
        routing = self._routing
        if routing is None:
            return
        models = tuple(anywhere(model, routing.plan.flows) for model in routing.routed(there))
        if not self.tables or self.tables[-1][1] != models:
            self.tables.append((self._seconds(), models))

    def on_transition(self, fleet: str, step: PastTransition) -> None:  # noqa: ARG002
        self.steps.append(((datetime.fromisoformat(step.at) - self._start).total_seconds(), step))

    def trouble(self, text: str) -> None:
        if text != (self.troubles[-1][1] if self.troubles else ""):
            self.troubles.append((self._seconds(), text))
