"""Workflows and runs over the admin API."""

from collections.abc import Iterator

import pytest

from control.api.page import encode
from control.db.database import Database
from control.runs.run_state import RunState
from tests.control.api.conftest import Api
from tests.control.orchestrator.apps import GOOD
from tests.control.orchestrator.world import World


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    made = World(database)
    with made.orchestrator():
        yield made


def test_a_run_is_started_answered_and_looked_at(
    operator: Api, viewer: Api, world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pushed = operator.post("/workflows", {"project": "p", "source": GOOD})
    assert pushed.status_code == 201
    names = {each["workflow"] for each in pushed.json()["items"]}
    assert {each["workflow"] for each in viewer.get("/workflows?project=p&limit=100").json()["items"]} == names
    assert viewer.get("/workflows/approved?project=p").json()["parameters"][0]["name"] == "file"
    file = str(tmp_path_factory.mktemp("ledger") / "ledger")
    body = {"project": "p", "arguments": {"file": file}}
    assert viewer.post("/workflows/approved/runs", body).status_code == 403
    started = operator.post("/workflows/approved/runs", body)
    assert started.status_code == 201
    path = started.headers["location"].removeprefix("/api/v1")
    world.until(started.json()["id"], lambda run: run.state is RunState.WAITING)
    assert viewer.get(path).json()["emitted"] == [{"asked": "may I?"}]
    assert operator.post(f"{path}/signals", {"name": "approved", "value": True}).status_code == 204
    assert world.answer(started.json()["id"]) == "done"
    assert viewer.get(path).json()["answer"] == "done"
    calls = viewer.get(f"{path}/calls").json()["items"]
    assert [(each["kind"], each["state"]) for each in calls] == [
        ("emit", "done"),
        ("signal", "done"),
        ("service", "done"),
    ]
    first = viewer.get(f"{path}/calls?limit=1").json()
    rest = viewer.get(f"{path}/calls?limit=5&cursor={first['next']}").json()
    assert ([*first["items"], *rest["items"]], rest["next"]) == (calls, None)
    other = viewer.get("/runs?limit=1").json()["next"] or encode(("2026-01-01T00:00:00+00:00", "no path"))
    assert viewer.get(f"{path}/calls?cursor={other}").status_code == 400
    assert operator.post(f"{path}:cancel").json()["state"] == "done"
    assert operator.post(f"{path}:resume", {}).status_code == 409
    assert operator.post(f"{path}/signals", {"name": "approved"}).status_code == 409
    assert [run["workflow"] for run in viewer.get("/runs?state=done").json()["items"]] == ["approved"]


def test_what_cannot_be_is_refused(operator: Api, world: World) -> None:
    operator.post("/workflows", {"project": "p", "source": GOOD})
    assert operator.post("/workflows", {"project": "p", "source": "1 / 0"}).status_code == 422
    assert operator.post("/workflows", {"project": "q", "source": GOOD}).status_code == 422
    assert "doubled" in operator.post("/workflows/dubled/runs", {"project": "p"}).json()["detail"]
    assert operator.post("/workflows/doubled/runs", {"project": "p", "arguments": {"x": 1}}).status_code == 422
    huge = {"project": "p", "arguments": {"start": 2**70}}
    assert operator.post("/workflows/doubled/runs", huge).status_code == 422
    assert operator.get("/runs/r0").status_code == 404
