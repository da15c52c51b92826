"""Clouds whose credentials are missing before they were ever asked: fleets are planned with what is left."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.live_offers import PostgresOffers
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.reconcile.live_planner import live_planner
from control.simulator.attainment import SimulatedAttainment

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPEC = """
apiVersion: medley/v1
kind: Fleet
name: two-clouds
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 1500, tpot_ms: 50, keep: throughput}
    workload: azure-code
    aggregated: true
    demand: {requests_per_s: 1}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L4, L40S]}
  - {cloud: gcp, regions: [us-central1], gpus: [L4]}
solver: {n_max: 1, rho: 12}
"""


@pytest.mark.parametrize("left_out", [[], ["aws"], ["aws", "gcp"]])
def test_the_others_go_on_and_each_is_named_with_the_reason(
    database: Database, tmp_path: Path, left_out: list[str]
) -> None:
    for cloud in left_out:
        PostgresOffers(database).failed(cloud, f"{cloud}-api", "no credentials", "no credentials", NOON)
    record = FleetRecord("two-clouds", "default", SPEC, "", FleetMode.AUTO, 1, False, NOON.isoformat())
    solved = live_planner(database, tmp_path, lambda *_: None, SimulatedAttainment).solve(record, (), NOON)
    rented = {instance.zone.partition("/")[0] for instance in solved.plan.instances}
    assert not rented & set(left_out)
    assert bool(rented) == (len(left_out) < 2) == (not solved.plan.unmet)
    notes = [note for note in solved.report.basis.notes if "is left out" in note]
    assert notes == [f"{cloud} is left out: no credentials" for cloud in left_out]
    if len(left_out) == 2:
        assert any("no offer has a node to give now" in reason.text for reason in solved.plan.reasons)
