"""Whatever the fleet, the planner's plan holds before the independent checker, and a file of it reads back the same."""

from pathlib import Path

import msgspec
import pytest

from control.allocator import solve
from control.checker import check, claims_of, read_files
from control.planning.recording import versioned
from tests.properties.random_fleets import random_fleet


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_of_a_random_fleet_holds(seed: int, tmp_path: Path) -> None:
    fleet = random_fleet(seed)
    snapshot = versioned(fleet.snapshot)
    plan = solve(snapshot, fleet.library)
    claims = claims_of(fleet.library, (i.template_id for i in plan.instances))
    assert [v.text for v in check(plan, snapshot, claims)] == []
    paths = tmp_path / "plan.json", tmp_path / "snapshot.json"
    for path, value in zip(paths, (plan, snapshot), strict=True):
        path.write_bytes(msgspec.json.encode(value))
    assert read_files(*paths) == (plan, snapshot)
