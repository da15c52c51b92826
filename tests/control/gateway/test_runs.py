"""Runs of workflows through a real gateway, a real API and an orchestrator."""

import asyncio
import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvicorn
from fastapi import FastAPI
from sqlalchemy import insert

from control.access.role import Role
from control.actions.projects import create_project
from control.actions.workflows import cancel_run, push_app, send_signal, start_run
from control.db.access_tables import api_token
from control.db.database import open_database
from control.gateway.api_error import ApiError
from control.gateway.runs.run_relay import RunRelay
from control.listener import listening, url_of
from control.runs.run_state import RunState
from tests.control.api.conftest import app_of
from tests.control.gateway import world as gateways
from tests.control.gateway.world import SECRET
from tests.control.orchestrator.apps import source
from tests.control.orchestrator.world import World

AT_ONCE = 3


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_database(module_database_url, connections=40) as database:
        made = World(database)
        made.push()
        values = {"id": "0123456789ab", "name": "app", "role": Role.CLIENT, "created_at": made.clock(), "project": "p"}
        digest = sha256(SECRET.encode()).digest()
        database.write(insert(api_token).values(values | {"digest": digest, "pepper": "", "priority": "standard"}))
        with made.orchestrator():
            yield made


@pytest.fixture(scope="module")
def http(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    gateway = gateways.World(tmp_path_factory.mktemp("gateway"))
    gateway.key = {"project": "p", "concurrent_requests": AT_ONCE}
    with served(app_of(world.database, tmp_path_factory.mktemp("api"))) as api:
        try:
            gateway.echo("e1")
            gateway.publish()
            gateway.start_gateway("--api", api)
            with gateway.http() as client:
                yield client
        finally:
            gateway.stop()


def path(workflow: str, run: str = "") -> str:
    return f"/v1/workflows/{workflow}/runs{'/' if run else ''}{run}"


def asked(http: httpx.Client, workflow: str, body: dict[str, Any] | None = None, **arguments: Any) -> httpx.Response:
    return http.post(path(workflow), json={"arguments": arguments} | (body or {}))


def events(answer: httpx.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else json.loads(data)


def test_a_run_is_started_and_answered_with_what_it_returns(http: httpx.Client) -> None:
    answer = asked(http, "doubled", start=3, times=2)
    run = answer.json()
    assert (answer.status_code, run["state"], run["answer"], run["emitted"]) == (200, "done", 12, [])
    again = http.get(answer.headers["location"])
    assert (again.status_code, again.json()) == (200, run)
    failed = asked(http, "careless", number=1).json()
    assert (failed["state"], failed["answer"]) == ("failed", None)
    assert "no such number" in failed["reason"]


def test_what_a_run_emits_comes_while_it_goes_on(http: httpx.Client, world: World, tmp_path: Path) -> None:
    body = {"arguments": {"file": str(tmp_path / "ledger")}, "stream": True}
    with http.stream("POST", path("approved"), json=body) as answer:
        coming = events(answer)
        begun, emitted = next(coming), next(coming)
        assert (emitted["run"], emitted["value"]) == (begun["id"], {"asked": "may I?"})
        shown = http.get(path("approved", begun["id"])).json()
        assert (shown["emitted"], shown["answer"]) == ([{"asked": "may I?"}], None)
        send_signal(world.act(), begun["id"], "approved", True)
        *_, ended, done = coming
    assert (ended["state"], ended["answer"], done) == ("done", "done", "[DONE]")


def test_what_is_emitted_comes_whole_however_large_it_is(http: httpx.Client) -> None:
    sizes = [3, 100_000, 5, 2_000_000, 70_000]  # those above 64 KiB are not shown elsewhere, above 1 MiB stored apart
    run = asked(http, "tells", sizes=sizes).json()
    assert run["state"] == "done", run["reason"]
    assert sorted(len(b64decode(each)) for each in run["emitted"]) == sorted(sizes)


def test_a_client_need_not_wait_and_may_ask_again_under_its_key(http: httpx.Client, world: World) -> None:
    headers = {"idempotency-key": "once"}
    body = {"arguments": {"file": "/dev/null"}, "wait_s": 0}
    first, again = (http.post(path("approved"), json=body, headers=headers) for _ in range(2))
    assert first.status_code == again.status_code == 202
    assert first.json()["id"] == again.json()["id"]
    cancel_run(world.act(), first.json()["id"])
    world.ended(first.json()["id"])
    assert http.get(first.headers["location"]).json()["state"] == RunState.CANCELLED


def test_what_cannot_be_is_refused(http: httpx.Client, world: World) -> None:
    for status, answer in (
        (404, asked(http, "dubled", start=1)),
        (400, asked(http, "doubled", number=1)),
        (400, asked(http, "doubled", {"wait": 1}, start=1)),
        (400, asked(http, "doubled", {"arguments": [1]})),
        (405, http.get(path("doubled"))),
        (405, http.post(path("doubled", "r1"))),
        (404, http.post("/v1/workflows/a%2Fb/runs", json={})),
        (404, http.get(path("doubled", "r0000000000000000"))),
    ):
        assert (answer.status_code, bool(answer.json()["error"]["message"])) == (status, True), answer.text
    assert "doubled" in asked(http, "dubled", start=1).json()["error"]["message"]
    assert http.post(path("doubled"), headers={"authorization": "Bearer no"}).status_code == 401
    create_project(world.act(), "q")
    push_app(world.act(), "q", source(), needs_isolation=False)
    other = start_run(world.act(), "q", "doubled", {"start": 1}).id
    assert http.get(path("doubled", other)).status_code == 404


def test_runs_that_are_waited_for_count_for_the_limits_of_the_key(http: httpx.Client, world: World) -> None:
    body = {"arguments": {"file": "/dev/null"}, "stream": True}
    with ExitStack() as stack:
        streams = [stack.enter_context(http.stream("POST", path("approved"), json=body)) for _ in range(AT_ONCE)]
        coming = [events(each) for each in streams]  # kept: a stream whose reader is gone is closed
        runs = [next(each)["id"] for each in coming]
        assert asked(http, "doubled", start=1).status_code == 429
        for run in runs:
            cancel_run(world.act(), run)


def test_an_api_that_is_away_is_said_to_be() -> None:
    async def start() -> None:
        relay = RunRelay("http://127.0.0.1:9")
        try:
            await relay.start((), "doubled", msgspec.Raw(b"{}"))
        finally:
            await relay.close()

    with pytest.raises(ApiError) as refused:
        asyncio.run(start())
    assert refused.value.status == 503
