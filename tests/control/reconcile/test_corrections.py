"""A fleet whose instances are slower than their certificate: the loop sees it in the answers, rents more, says why, and
takes it back when they are as fast as they should be."""

from datetime import timedelta
from pathlib import Path

import pytest

from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.plans import PostgresPlans
from control.db.slo_samples import Judged, LatencyHistogram, PostgresSloSamples, SloSample
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from tests.control.planning.worlds import ROUGHLY
from tests.control.reconcile.reconciled import Place, Plane, spec

RATE = 1.0
WORK_CLASS = "chat-model/aggregated"
PROMISED = 0.95
REPLANNED_S = 320
NOTHING = LatencyHistogram((None,), (0.0,))


class Fleet:
    """Its gateway counts what a test says."""

    def __init__(self, place: Place) -> None:
        self.place = place
        more = "policy: {step_time_margin: 0}"  # corrections alone
        text = spec(rate=RATE, more=more).replace(
            "percentile: 95, keep: throughput", f"keep: {{percentile: {100 * PROMISED:g}}}"
        )
        place.put(text)
        self.plane = self.started("one")

    def started(self, name: str) -> Plane:
        plane = Plane(self.place, name, attainment=ROUGHLY)
        plane.until_settled()
        return plane

    def serves(self, minutes: int, kept: float, load: float = 1.0) -> None:
        """Let `minutes` pass in which a share `kept` of the answers is in time, and the loop plan again."""
        begun = (self.place.now + timedelta(minutes=1)).replace(second=0, microsecond=0)
        answers = 60 * RATE * load
        judged = (Judged(WORK_CLASS, "ttft", answers, answers * kept), Judged(WORK_CLASS, "tpot", answers, answers))
        PostgresSloSamples(self.place.database).add(
            SloSample("gateway", "chat-model", begun + timedelta(minutes=minute), NOTHING, NOTHING, judged)
            for minute in range(minutes)
        )
        self.place.pass_time(60 * (minutes + 1))
        self.plane.run(5)
        self.plane.until_settled()

    @property
    def corrections(self) -> list[str]:
        return self.place.events("promise.corrected")

    @property
    def plan(self) -> tuple[Plan, Snapshot]:
        plans = PostgresPlans(self.place.database)
        plan = plans.load(self.place.fleets.target("chat").accepted)
        return plan, plans.snapshot(plan.snapshot_version)


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    return Fleet(Place(database, tmp_path))


def test_a_fleet_that_keeps_less_than_it_promised_gets_more_capacity_until_it_does(fleet: Fleet) -> None:
    before, (first, _) = len(fleet.place.types()), fleet.plan
    assert first.attainment[WORK_CLASS].is_kept
    fleet.serves(20, PROMISED)
    fleet.serves(20, 0.5, load=2.0)  # more than was planned for: no fault of the certificate
    assert fleet.corrections == []
    assert len(fleet.place.types()) == before

    fleet.serves(30, 0.8)
    (said,) = fleet.corrections
    stored = PostgresCorrections(fleet.place.database).of_fleet("chat")[WORK_CLASS]
    assert f"{WORK_CLASS}: 100 -> {100 * stored.factor:.3g} % of its certified capacity" in said
    assert stored.reason in said
    assert len(fleet.place.types()) > before
    plan, snapshot = fleet.plan
    assert snapshot.settings.corrections == {WORK_CLASS: stored.factor}
    (reason,) = (each for each in plan.reasons if each.kind == "correction")
    assert reason.subject == WORK_CLASS
    assert plan.attainment[WORK_CLASS].is_kept

    # Another process goes on with it, and what is kept now as promised leaves it as it is.
    fleet.plane.leader.resign()
    fleet.plane = fleet.started("two")
    corrected = len(fleet.place.types())
    fleet.serves(30, PROMISED)
    assert len(fleet.corrections) == 1
    assert fleet.plan[1].settings.corrections == {WORK_CLASS: stored.factor}
    assert len(fleet.place.types()) == corrected

    # Instances as fast as certified: step by step it is given back.
    fleet.serves(100, 1.0)
    for _ in range(3):
        fleet.serves(70, 1.0)
    assert fleet.corrections[1:]
    assert PostgresCorrections(fleet.place.database).of_fleet("chat")[WORK_CLASS].factor == 1.0
    assert len(fleet.place.types()) == before
