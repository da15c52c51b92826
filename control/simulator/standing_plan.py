"""A plan that is made once, of a recorded snapshot, and stands from the start of a simulation to its end."""

import tempfile
from collections import Counter
from pathlib import Path

from control.db.database import open_database
from control.db.plans import PostgresPlans
from control.planning.session import PlanningSession
from control.simulator.attainment import SimulatedAttainment
from control.simulator.fleet_history import instance_span
from control.simulator.fleet_run import Around, method
from control.simulator.plane_log import PlanMade
from control.simulator.result import InstanceSpan, NodeSpan, SimulationEvent
from control.simulator.scenario import SnapshotScenario
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.plan_timeline import planned_instances, timeline_of_plan


class StandingPlan:
    """The history of a fleet that is as its plan wants it all the time. Times are seconds from the start."""

    def __init__(self, scenario: SnapshotScenario, around: Around) -> None:
        """Make the plan. Raises ValueError where that cannot be, or a given plan was made on another snapshot."""
        fixed = scenario.fixed
        with (
            tempfile.TemporaryDirectory(prefix="medley-", dir=around.folder) as home,
            open_database(None, Path(home) / "postgres") as database,
        ):
            plans = PostgresPlans(database)
            session = PlanningSession(
                around.libraries, plans, around.progress, around.clock, method(scenario), SimulatedAttainment
            )
            recording, templates = session.replay(scenario.recording)
            if fixed is not None and fixed.snapshot_version != recording.snapshot.version:
                where = f"snapshot {fixed.snapshot_version}, and {recording.name} is {recording.snapshot.version}"
                raise ValueError(f"plan {fixed.id} was made on {where}: make it again with `medley plan --snapshot`")
            report = session.plan(recording, templates, baselines=False)
        assert recording.recipe is not None  # noqa: S101 - it was replayed
        self._plan, self._snapshot, self._recipe = report.plan, recording.snapshot, recording.recipe
        self._length_s = scenario.length_s
        self.plans = (PlanMade.of(report, 0.0),)

    def timeline(self) -> FleetTimeline:
        return timeline_of_plan(self._plan, self._recipe, self._snapshot.routes, self._length_s)

    def instances(self) -> tuple[InstanceSpan, ...]:
        return tuple(instance_span(name, each, 0.0, 0.0, None, None) for name, each in planned_instances(self._plan))

    def nodes(self) -> tuple[NodeSpan, ...]:
        """Nodes of its instances, on the offers that the plan uses."""
        sold, found = {offer.key: offer for offer in self._snapshot.offers}, []
        left = [sold[each.offer] for each in self._plan.offers for _ in range(each.nodes)]
        for name, wanted in planned_instances(self._plan):
            for number, config in enumerate(Counter(wanted.nodes).elements()):
                of = config, wanted.zone, wanted.market
                at = [(offer.node_config, offer.zone_id, offer.market) for offer in left].index(of)
                offer = left.pop(at)
                disk_usd = self._snapshot.charged_disks.usd_per_hour(wanted.zone, wanted.disk_gib)
                usd = (offer.usd_per_hour + disk_usd) * self._length_s / 3600
                where = config, wanted.zone, wanted.market.value
                found.append(NodeSpan(f"{name}/n{number}", name, offer.key, *where, 0.0, self._length_s, usd))
        return tuple(found)

    def events(self) -> tuple[SimulationEvent, ...]:
        return tuple(plan.event for plan in self.plans)

    def spent_usd(self, from_s: float, until_s: float) -> float:
        return sum(node.spent_usd for node in self.nodes()) * (until_s - from_s) / self._length_s
