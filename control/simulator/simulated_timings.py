"""How simulated nodes behave: how long they take to serve, and to finish what they serve."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from control.diff.target import Target
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.sources.placement_kinds import engines_run
from templates_lib.values.engine_set import engines_of
from templates_lib.values.instance import Instance


@dataclass(frozen=True, slots=True)
class SimulatedTimings:
    """Durations are seconds."""

    startup_s: tuple[float, float]
    """Least and most, from a whole gang to its first request: drawn for each instance by its id."""
    drain_s: Mapping[tuple[str, ...], float]
    """Work classes → from the last request that it is given to the end of it."""
    seed: int
    install_s: Mapping[str, float] = field(default_factory=dict)
    """What engines add to `startup_s`, by engine; none where that is of whatever an instance runs."""

    def next_event(self, instance: Instance, wanted: Target | None) -> tuple[Event, float] | None:
        """What its nodes will say next, and how long after its last step; None: nothing."""
        match InstanceState(instance.state):
            case InstanceState.BOOTSTRAPPING:
                return Event(EventKind.AGENTS_UP, "its nodes have come up"), 0.0
            case InstanceState.LOADING:
                draw = Random(f"{self.seed}/{instance.id}")  # noqa: S311 - a world that can be made again
                engines = () if wanted is None else engines_of(engines_run(wanted.template))
                installed_s = sum(self.install_s.get(engine, 0.0) for engine in engines)
                return Event(EventKind.LOADED, "it has started"), draw.uniform(*self.startup_s) + installed_s
            case InstanceState.DRAINING:
                place = () if wanted is None else wanted.classes
                return Event(EventKind.DRAINED, "its last request is answered"), self.drain_s.get(place, 0.0)
        return None
