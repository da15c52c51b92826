"""Changes that a plan would make, to be looked at before it is applied."""

from collections.abc import Sequence
from dataclasses import dataclass

from control.diff.capacity import planned_units, ready_units
from control.diff.groups import MoveGroup, move_groups
from control.diff.limits import ChangeLimits
from control.diff.match import match
from control.diff.running import Running
from control.diff.supply import Supply
from control.diff.target import Target
from control.diff.transition import FleetTransition, plan_transition


@dataclass(frozen=True, slots=True)
class FleetDiff:
    usd_per_hour_before: float
    """Rent of what runs, what is on its way in included."""
    usd_per_hour_after: float
    most_usd_per_hour: float
    """Rent while old and new run side by side, at the dearest step."""
    units_per_s_before: dict[str, float]
    """Capacity of ready instances by work class."""
    units_per_s_after: dict[str, float]
    kept: int
    launched: int
    drained: int
    released: int
    requests_at_risk: int
    """Requests on ready instances that go: a drain waits for them, up to its deadline; what is left then goes on
    elsewhere."""
    transition: FleetTransition
    groups: tuple[tuple[MoveGroup, ...], ...]
    """Groups of equal moves, for each step of the transition."""

    @property
    def is_empty(self) -> bool:
        return not (self.transition.steps or self.transition.stuck)


def fleet_diff(
    wanted: Sequence[Target], running: Sequence[Running], supply: Supply, limits: ChangeLimits | None = None
) -> FleetDiff:
    transition = plan_transition(wanted, running, supply, limits)
    by_id = {each.id: each for each in running}
    usd = before = sum(each.usd_per_hour for each in running if not each.is_leaving)
    most = usd + sum(each.held_usd_per_hour for each in running if each.is_leaving)
    for step in transition.steps:
        usd += sum(launch.usd_per_hour for launch in step.launch)
        most = max(most, usd)
        usd -= sum(drain.usd_per_hour for drain in step.drain) + sum(r.usd_per_hour for r in step.release)
    return FleetDiff(
        usd_per_hour_before=before,
        usd_per_hour_after=sum(t.count * t.usd_per_hour for t in wanted),
        most_usd_per_hour=most,
        units_per_s_before=ready_units(running),
        units_per_s_after=planned_units(wanted),
        kept=len(match(wanted, running).kept),
        launched=sum(len(step.launch) for step in transition.steps),
        drained=sum(len(step.drain) for step in transition.steps),
        released=sum(len(step.release) for step in transition.steps),
        requests_at_risk=sum(by_id[drain.instance_id].requests for step in transition.steps for drain in step.drain),
        transition=transition,
        groups=tuple(move_groups(step, by_id) for step in transition.steps),
    )
