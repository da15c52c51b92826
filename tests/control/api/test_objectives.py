"""What a plan's fleet costs against its objectives: asked for once, found by a worker, there for all."""

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from control.actions.decide_plan import DRAFT
from control.api.problem import ApiError
from control.api.work.jobs import JOBS, Job
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.operations import Operation, PostgresOperations
from control.db.plans import PostgresPlans
from control.reconcile.live_planner import live_planner
from control.simulator.attainment import SimulatedAttainment
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import kept_plan, spec

MODEL = "smollm2-135m-instruct"
TTFT = {"model": MODEL, "axis": "ttft"}


def curve(axis: str, now_at: float) -> dict[str, Any]:
    points = [
        {"value": now_at / 2, "usd_per_hour": None, "unmet_share": 1.0, "is_kept": False, "problem": "too soon"},
        {"value": now_at, "usd_per_hour": 0.8, "unmet_share": 0.0, "is_kept": True, "problem": ""},
    ]
    return {"model": MODEL, "axis": axis, "unit": "ms", "now": now_at, "points": points}


def done(database: Database, found: dict[str, Any]) -> Operation:
    """The oldest operation that waits, with this curve as its result."""
    operations = PostgresOperations(database)
    claimed = operations.claim("a worker", timedelta(minutes=1), now())
    assert claimed is not None
    operations.succeed(claimed.id, "a worker", {"plan_id": claimed.request["plan"], "curve": found}, now())
    return claimed


@pytest.fixture
def plan(operator: Api, database: Database) -> str:
    assert operator.post("/fleets", {"spec": spec("chat")}).status_code == 201
    return kept_plan(database, "chat").id


def test_what_was_found_is_there_for_all_and_not_looked_for_again(
    operator: Api, viewer: Api, database: Database, plan: str
) -> None:
    asked = operator.post(f"/plans/{plan}:objectives", TTFT)
    assert asked.status_code == 202
    assert operator.post(f"/plans/{plan}:objectives", TTFT).json()["id"] == asked.json()["id"]  # under way
    assert viewer.get(f"/plans/{plan}/objectives").json()["curves"] == []
    assert done(database, curve("ttft", 60_000)).id == asked.json()["id"]
    assert operator.post(f"/plans/{plan}:objectives", TTFT).json()["state"] == "succeeded"
    for other in ({"axis": "tpot"}, {"values": [9.0, 8.0]}, {"values": [8.0]}):
        assert operator.post(f"/plans/{plan}:objectives", TTFT | other).json()["state"] == "queued"
    same = operator.post(f"/plans/{plan}:objectives", TTFT | {"values": [8.0, 9.0]}).json()
    assert same["id"] in {each.id for each in PostgresOperations(database).page(9)}
    assert len(PostgresOperations(database).page(9)) == 4
    done(database, curve("tpot", 6000))
    shown = viewer.get(f"/plans/{plan}/objectives").json()
    assert (shown["plan_id"], shown["usd_per_hour"]) == (plan, 0.8)
    assert {each["axis"]: each["now"] for each in shown["curves"]} == {"ttft": 60_000, "tpot": 6000}
    (only,) = viewer.get(f"/plans/{plan}/objectives?model={MODEL}&axis=ttft").json()["curves"]
    assert [(p["usd_per_hour"], p["problem"]) for p in only["points"]] == [(None, "too soon"), (0.8, "")]
    assert viewer.get(f"/plans/{plan}/objectives?model=another").json()["curves"] == []


def test_what_failed_or_was_stopped_is_done_when_it_is_asked_for_again(
    operator: Api, database: Database, plan: str
) -> None:
    first = operator.post(f"/plans/{plan}:objectives", TTFT).json()["id"]
    operator.post(f"/operations/{first}:cancel")
    second = operator.post(f"/plans/{plan}:objectives", TTFT).json()["id"]
    assert second != first
    operations = PostgresOperations(database)
    assert operations.claim("a worker", timedelta(minutes=1), now()) is not None
    operations.fail(second, "a worker", {"name": "took-too-long", "detail": ""}, now())
    assert operator.post(f"/plans/{plan}:objectives", TTFT).json()["id"] not in (first, second)


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({"model": "smollm2-135m"}, "/model", MODEL),
        ({"axis": "tbt"}, "/axis", "ttft"),
        ({"axis": "percentile", "values": [49.0]}, "/values", "from 50 to 99.9"),
        ({"axis": "percentile", "values": [99.95]}, "/values", "from 50 to 99.9"),
        ({"values": [0]}, "/values/0", "greater than 0"),
        ({"values": [1e8]}, "/values/0", "10000000"),
        ({"values": list(range(1, 22))}, "/values", "20"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_before_anything_is_planned(
    operator: Api, database: Database, plan: str, body: dict[str, Any], pointer: str, words: str
) -> None:
    refused = operator.post(f"/plans/{plan}:objectives", TTFT | body)
    assert refused.status_code == 422
    (wrong,) = refused.json()["errors"]
    assert wrong["pointer"] == pointer
    assert words in wrong["message"]
    assert PostgresOperations(database).page(9) == ()


def test_drafts_strangers_and_viewers_are_refused(operator: Api, viewer: Api, database: Database, plan: str) -> None:
    plans = PostgresPlans(database)
    draft = replace(plans.load(plan), id="plan-draft")
    plans.save(f"chat{DRAFT}", draft, plans.snapshot(draft.snapshot_version))
    assert operator.post(f"/plans/{draft.id}:objectives", TTFT).status_code == 409
    assert operator.post(f"/plans/{kept_plan(database, 'gone', number=3).id}:objectives", TTFT).status_code == 404
    assert operator.post("/plans/nothing:objectives", TTFT).status_code == 404
    assert viewer.get("/plans/nothing/objectives").status_code == 404
    assert viewer.post(f"/plans/{plan}:objectives", TTFT).status_code == 403


def test_a_worker_plans_the_fleet_under_each_value(operator: Api, database: Database, tmp_path: Path) -> None:
    assert operator.post("/fleets", {"spec": spec("chat")}).status_code == 201
    fleets = PostgresFleets(database)
    planner = live_planner(database, tmp_path, lambda *_: None, SimulatedAttainment)
    made = planner.solve(fleets.load("chat"), (), now()).plan
    assert made.instances
    body = TTFT | {"values": [1.0, 120_000.0]}
    asked = operator.post(f"/plans/{made.id}:objectives", body).json()["id"]
    operation, said = PostgresOperations(database).load(asked), []
    before_s = time.monotonic()
    result = JOBS[operation.kind](Job(operation, database, tmp_path, now, said.append))
    assert time.monotonic() - before_s < 60
    done(database, result["curve"])
    (found,) = operator.get(f"/plans/{made.id}/objectives").json()["curves"]
    least, in_force, eased = found["points"]
    assert (found["now"], found["unit"], found["axis"]) == (60_000, "ms", "ttft")
    assert (least["value"], least["usd_per_hour"]) == (1.0, None)
    assert least["problem"]
    assert in_force["usd_per_hour"] == made.usd_per_hour
    assert eased["usd_per_hour"] <= made.usd_per_hour
    assert said[-1].endswith("2 of 2 values")
    # Of a fleet that is asked for otherwise since, templates of the plan are not those of its objectives.
    other = spec("chat")
    other["models"][0]["slo"]["tpot_ms"] = 3000
    etag = operator.get("/fleets/chat").headers["etag"]
    assert operator("PUT", "/fleets/chat", {"spec": other}, If_Match=etag).status_code == 200
    with pytest.raises(ApiError, match="Plan the fleet again"):
        JOBS[operation.kind](Job(operation, database, tmp_path, now, said.append))
