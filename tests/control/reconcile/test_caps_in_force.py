"""A running fleet is planned again from the utilisation caps of its plan in force."""

from datetime import UTC, datetime
from pathlib import Path

from control.db.database import Database
from control.db.plans import PostgresPlans
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.reconcile.live_planner import live_planner
from tests.control.planning.worlds import KEEP_SPEC, ROUGHLY

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLASSES = {"gpt-oss-20b/prefill", "gpt-oss-20b/decode"}


def _record(keep: str) -> FleetRecord:
    return FleetRecord("chat", "default", KEEP_SPEC.format(keep=keep), "", FleetMode.AUTO, 1, False, NOON.isoformat())


def test_caps_in_force_are_begun_from_while_their_classes_are_promised_something(
    database: Database, tmp_path: Path
) -> None:
    planner, plans = live_planner(database, tmp_path, lambda *_: None, ROUGHLY), PostgresPlans(database)
    kept = _record("{percentile: 99}")
    first = planner.solve(kept, (), NOON)
    again = planner.solve(kept, (), NOON, in_force=first.plan.id)
    assert again.plan.usd_per_hour <= first.plan.usd_per_hour * (1 + 1e-6)
    assert all(each.is_kept for each in again.plan.attainment.values())
    assert plans.snapshot(again.plan.snapshot_version).settings.utilisation_caps.keys() == CLASSES
    assert planner.solve(kept, (), NOON, in_force=first.plan.id).plan.id == again.plan.id
    unknown = planner.solve(kept, (), NOON, in_force="thrown-away")
    assert unknown.plan.id == first.plan.id
    plain = planner.solve(_record("throughput"), (), NOON, in_force=first.plan.id)
    assert (plain.snapshot.settings.utilisation_caps, plain.plan.attainment) == ({}, {})
