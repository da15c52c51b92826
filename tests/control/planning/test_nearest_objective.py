"""Objectives that nothing keeps: the nearest that could be kept, by how much, at what price."""

import re
import time
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.nearest_objective import nearest_kept
from control.planning.session import PlanningSession
from control.planning.templates import UnservableError
from tests.control.planning.worlds import KEEP_SPEC, NOON, ROUGHLY, world_of

NOW_MS = {"ttft": 1500, "tpot": 60}


@pytest.mark.parametrize(("axis", "asked_ms"), [("ttft", 50), ("tpot", 3)])
def test_the_nearest_objective_is_one_that_a_plan_keeps_at_that_price(
    module_database: Database, tmp_path: Path, axis: str, asked_ms: int
) -> None:
    session = PlanningSession(
        PostgresLibraries(module_database),
        PostgresPlans(module_database),
        lambda *_: None,
        time.perf_counter,
        attainment=ROUGHLY,
    )
    spec = KEEP_SPEC.format(keep="{percentile: 99}")
    before = f"{axis}_ms: {NOW_MS[axis]}"
    world = world_of(tmp_path, spec.replace(before, f"{axis}_ms: {asked_ms}"))
    with pytest.raises(UnservableError):
        session.record(world, NOON)
    said = nearest_kept(session, world, NOON)
    found = re.search(r"-> ([\d.]+) ms \(by ([\d.]+) ms\).* ([\d.]+) \$/h", said)
    assert found, said
    nearest, by, usd = map(float, found.groups())
    assert nearest == pytest.approx(asked_ms + by, rel=0.01)
    recording, templates = session.record(world_of(tmp_path, spec.replace(before, f"{axis}_ms: {nearest}")), NOON)
    plan = session.plan(recording, templates, baselines=False).plan
    assert all(each.is_kept for each in plan.attainment.values())
    assert plan.usd_per_hour == pytest.approx(usd, abs=0.01)


def test_where_no_latency_objective_is_the_reason_nothing_is_said(module_database: Database, tmp_path: Path) -> None:
    spec = KEEP_SPEC.format(keep="throughput").replace("n_max: 1", "n_max: 1, rho: 0.5")
    session = PlanningSession(
        PostgresLibraries(module_database), PostgresPlans(module_database), lambda *_: None, time.perf_counter
    )
    assert nearest_kept(session, world_of(tmp_path, spec), NOON) == ""
