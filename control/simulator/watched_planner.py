"""The planner of fleets, with somebody who hears of every plan."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from control.lifecycle.fleet import FleetRecord
from control.planning.recording import Recording
from control.planning.session import PlanningSession
from control.planning.world import World
from control.reconcile.fleet_planner import FleetPlanner, Solved, as_it_is
from control.reconcile.market import DemandSource, MarketSource
from templates_lib.values.instance import Instance


class WatchedPlanner(FleetPlanner):
    """Plans one fleet, whose world is known."""

    def __init__(
        self,
        session: PlanningSession,
        world: World,
        market: MarketSource,
        demand: DemandSource,
        drained: Callable[[str, datetime], Sequence[datetime]],
        heard: Callable[[Solved], None],
    ) -> None:
        """`drained`: as of `FleetPlanner`."""
        super().__init__(session, lambda _: world, market, demand, drained=drained)
        self._of_all, self._heard = world, heard

    def world(self, record: FleetRecord) -> World:  # noqa: ARG002 - there is one, whatever its text names
        return self._of_all

    def solve(
        self,
        record: FleetRecord,
        instances: Iterable[Instance],
        now: datetime,
        *,
        in_force: str = "",
        supposed: Callable[[Recording], Recording] = as_it_is,
        baselines: bool = False,
    ) -> Solved:
        solved = super().solve(record, instances, now, in_force=in_force, supposed=supposed, baselines=baselines)
        self._heard(solved)
        return solved

    def compare(self, solved: Solved) -> None:
        """Compares with nothing: a simulation is compared as a whole."""
