"""Long work: done by worker processes of a real `medley api`, and not lost with them."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from control.access.role import Role
from control.db.database import Database
from control.db.errors import StaleVersionError
from control.db.location import URL_VARIABLE
from control.db.operations import MAX_ATTEMPTS, OperationState, PostgresOperations
from tests.control.api.conftest import now, token_of
from tests.control.api.worlds import spec

PATIENCE_S = 300.0


def until(true: Callable[[], Any], what: str) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if (found := true()) is not None:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE_S:g} s")


@contextmanager
def api_process(database_url: str, home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A real one, and its URL."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEDLEY_")}
    environment = kept | {URL_VARIABLE: database_url, "MEDLEY_HOME": str(home)}
    command = (sys.executable, "-c", "from control.cli.main import run; run()", "api", "--port", "0", *options)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        assert ready, "it says nothing"
        said = process.stdout.readline().decode()
        url = re.search(r"http://\S+", said)
        assert url, said
        yield process, url[0]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def ended(client: httpx.Client, operation: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(f"/operations/{operation}").raise_for_status().json()
        return None if found["state"] in ("queued", "running") else found

    found: dict[str, Any] = until(look, f"operation {operation}")
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("medley")


def test_a_fleet_is_planned_supposed_and_held_to_its_budget(database: Database, database_url: str, home: Path) -> None:
    headers = {"Authorization": f"Bearer {token_of(database, Role.OPERATOR)}"}
    with (
        api_process(database_url, home) as (process, url),
        httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client,
    ):
        assert client.post("/fleets", json={"spec": spec()}).status_code == 201

        with client.stream("GET", "/events:follow?since=0") as stream:
            lines = stream.iter_lines()
            data = next(line for line in lines if line.startswith("data: "))
            assert json.loads(data.removeprefix("data: "))["kind"] == "fleet.created"

        asked = client.post("/plans", json={"fleet": "chat"})
        assert asked.status_code == 202
        done = ended(client, asked.json()["id"])
        assert done["state"] == "succeeded", done["problem"]
        plan = client.get(f"/plans/{done['result']['plan_id']}").raise_for_status().json()
        assert (plan["fleet"], plan["draft"], plan["unmet_share"]) == ("chat", False, 0.0)
        assert plan["usd_per_hour"] == pytest.approx(done["result"]["usd_per_hour"])
        assert {baseline["name"] for baseline in plan["baselines"]} == {"homo", "homo_joint", "cauchy"}

        dearer = {"prices": [{"factor": 3}], "demand": [{"model": "smollm2-135m-instruct", "factor": 1}]}
        supposed = client.post("/plans", json={"fleet": "chat", "what_if": dearer, "baselines": False}).json()
        poor = spec(policy={"max_usd_per_hour": 0.0001})
        broke = client.post("/plans", json={"fleet": "chat", "spec": poor, "baselines": False}).json()
        wrong = {"without": [{"cloud": "azure"}]}
        unknown = client.post("/plans", json={"fleet": "chat", "what_if": wrong, "baselines": False}).json()

        result = ended(client, supposed["id"])["result"]
        assert result["draft"]
        assert result["usd_per_hour"] == pytest.approx(3 * plan["usd_per_hour"], rel=0.01)
        refused = ended(client, broke["id"])
        assert (refused["state"], refused["problem"]["name"]) == ("failed", "over-budget")
        facts = refused["problem"]["facts"]
        assert facts["needed_usd_per_hour"] > facts["budget_usd_per_hour"] == 0.0001
        assert "0.00 $/h" in refused["problem"]["detail"]
        assert "azure" in ended(client, unknown["id"])["problem"]["detail"]

        names = [plan["draft"] for plan in client.get("/plans").json()["items"]]
        assert names.count(False) == 1

        # What its worker had begun is taken up by the next process.
        asked = client.post("/plans", json={"fleet": "chat", "baselines": False}).json()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with (
        api_process(database_url, home) as (_, url),
        httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client,
    ):
        assert ended(client, asked["id"])["state"] == "succeeded"


def test_two_workers_never_get_the_same(database: Database) -> None:
    operations = PostgresOperations(database)
    made = {operations.create("plan", {}, "", "token:x", "", now()).id for _ in range(4)}
    taken = [operations.claim(f"w{n}", timedelta(minutes=1), now()) for n in range(5)]
    assert {each.id for each in taken if each is not None} == made
    assert taken[4] is None


def test_what_a_dead_worker_left_is_done_by_another(database: Database) -> None:
    operations = PostgresOperations(database)
    made = operations.create("plan", {}, "", "token:x", "", now())
    assert operations.claim("dead", timedelta(0), now()) is not None
    again = operations.claim("alive", timedelta(minutes=1), now())
    assert again is not None
    assert again.id == made.id
    assert not operations.renew(made.id, "dead", timedelta(minutes=1), "")
    with pytest.raises(StaleVersionError):
        operations.succeed(made.id, "dead", {}, now())
    assert operations.renew(made.id, "alive", timedelta(minutes=1), "solving")
    operations.succeed(made.id, "alive", {"plan_id": "p"}, now())
    done = operations.load(made.id)
    assert (done.state, done.result) == (OperationState.SUCCEEDED, {"plan_id": "p"})


def test_work_that_kills_its_workers_is_given_up(database: Database) -> None:
    operations = PostgresOperations(database)
    made = operations.create("plan", {}, "", "token:x", "", now())
    for _ in range(MAX_ATTEMPTS):
        assert operations.claim("doomed", timedelta(0), now()) is not None
    assert operations.claim("next", timedelta(0), now()) is None
    ended = operations.load(made.id)
    assert (ended.state, (ended.problem or {})["name"]) == (OperationState.FAILED, "worker-died")


def test_a_cancelled_operation_is_its_workers_no_more(database: Database) -> None:
    operations = PostgresOperations(database)
    made = operations.create("plan", {}, "", "token:x", "", now())
    operations.claim("worker", timedelta(minutes=1), now())
    assert operations.cancel(made.id, now()).state is OperationState.CANCELLED
    assert not operations.renew(made.id, "worker", timedelta(minutes=1), "")
    assert operations.claim("other", timedelta(minutes=1), now()) is None
