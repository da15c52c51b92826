"""Timeline of a simulated fleet: the instances that serve, and the routing tables that hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

from agents.messages.to_scheduler import LEGS
from control.simulator.serving.batch_model import BatchModel
from control.timing.pipeline_model import PipelineModel
from policies.routing_table import RoutedModel, RoutedRoute


@dataclass(frozen=True, slots=True, eq=False)
class InstanceLife:
    """One instance from the moment it could serve. Times are seconds since the start of the simulation.

    It takes requests from `ready_s` on, none after `drain_s`, and is dead from `gone_s` on: what it then holds is
    computed again elsewhere, behind the tokens that were made."""

    id: str
    app: str
    """The model, as routing tables and `Requests.apps` call it."""
    leg: str
    """Part of a request that it does: of text a value of `agents.messages.to_scheduler.Leg`, else a phase."""
    zone: str
    station: PipelineModel | BatchModel
    ready_s: float = 0.0
    drain_s: float = inf
    gone_s: float = inf
    usd_per_hour: float = 0.0
    units_per_s: Mapping[str, float] = field(default_factory=dict)
    """Certified capacity by work class."""

    def __post_init__(self) -> None:
        if not 0 <= self.ready_s <= min(self.drain_s, self.gone_s):
            raise ValueError(
                f"instance {self.id} is ready at {self.ready_s} s, drained from {self.drain_s} s and gone at "
                f"{self.gone_s} s: these must follow each other, none before 0"
            )

    @property
    def work_classes(self) -> frozenset[str]:
        """What it does, as routing tables name it."""
        if isinstance(self.station, BatchModel):
            return frozenset(name for point in self.station.points for name in point)
        return frozenset(f"{self.app}/{phase}" for phase, leg in LEGS.items() if leg == self.leg)


@dataclass(frozen=True, slots=True, eq=False)
class FleetTimeline:
    instances: tuple[InstanceLife, ...]
    tables: tuple[tuple[float, tuple[RoutedModel, ...]], ...]
    """(from when, models), ascending: a gateway serves by the last of them. A model's id is an app's name. Before the
    first nothing is served. An instance that is named but not ready, or draining, is passed over."""
    length_s: float
    """What is not over then is unfinished."""
    mean_output_tokens: Mapping[str, float] = field(default_factory=dict)
    """App → what admission expects of an answer; the mean of its own requests where it is not named."""

    def __post_init__(self) -> None:
        known = {instance.id: instance for instance in self.instances}
        if len(known) < len(self.instances):
            raise ValueError("instance ids of a timeline repeat")
        if any(later[0] < earlier[0] for earlier, later in pairwise(self.tables)):
            raise ValueError("routing tables of a timeline must be in order of time")
        for at_s, models in self.tables:
            for model in models:
                for routed in model.members:
                    life = known.get(routed.id)
                    if life is None or not routed.units_per_s.keys() <= life.work_classes:
                        what = "is no instance" if life is None else f"serves {', '.join(life.work_classes)}"
                        classes = ", ".join(routed.units_per_s)
                        raise ValueError(f"the table of {at_s} s routes {classes} to {routed.id}, which {what}")

    def routes(self, apps: tuple[str, ...]) -> tuple[RoutedRoute, ...]:
        """Return every route that requests of these apps may take, whichever table holds, without flows."""
        models = (model for _, models in self.tables for model in models if model.id in apps)
        return tuple(dict.fromkeys(replace(route, flows=()) for model in models for route in model.routes))

    def work_classes(self, apps: tuple[str, ...]) -> tuple[str, ...]:
        """Classes of the legs that requests of these apps may take, whichever table holds."""
        return tuple(sorted({leg.work_class for route in self.routes(apps) for leg in route.legs}))

    def apps_of_instances(self, apps: tuple[str, ...]) -> list[list[int]]:
        """Places in `apps` of each instance's own, and of those that any table has it serve."""
        named = {life.id: {life.app} for life in self.instances}
        for model in (model for _, models in self.tables for model in models):
            for member in model.members:
                named[member.id].add(model.id)
        return [[number for number, app in enumerate(apps) if app in names] for names in named.values()]
