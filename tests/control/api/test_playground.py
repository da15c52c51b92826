"""Chats through a real gateway: the answer as it comes, who gave it, and what it cost."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from control.access.role import Role
from control.api.routes import playground
from control.api.routes.playground import ChatResponse
from control.db.database import Database
from control.fleet.answer_cost import answer_usd
from control.fleet.live_instances import instance_views
from tests.control.api.conftest import SETTINGS, Api, app_of, now, token_of
from tests.control.api.worlds import OFFER, kept_plan, serving
from tests.control.gateway.world import API_KEY, MODEL, World, world_of

INSTANCE = "i000000000001"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("playground"), {INSTANCE: ()}) as world:
        yield world


@pytest.fixture
def chatting(world: World, database: Database, tmp_path: Path) -> Iterator[Api]:
    """A viewer of an API that knows the gateway, behind one that is gone."""
    settings = replace(SETTINGS, gateways=("http://127.0.0.1:9", world.url))
    with TestClient(app_of(database, tmp_path, settings), raise_server_exceptions=False) as client:
        yield Api(client, token_of(database, Role.VIEWER))


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "key": API_KEY, "max_tokens": 6} | more


def events(text: str) -> list[tuple[str, Any]]:
    """Kind and document of each."""
    found = []
    for event in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.splitlines() if not line.startswith(":"))
        if "data" in lines:
            data = lines["data"]
            found.append((lines.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return found


def test_an_answer_says_who_gave_it_and_what_it_cost(chatting: Api, database: Database) -> None:
    kept_plan(database, "chat")
    serving(database, "chat", now(), INSTANCE)
    answer = chatting.post("/playground:chat", said("ab"))
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
    *chunks, (kind, route) = events(answer.text)
    texts = [c["choices"][0]["delta"].get("content") or "" for _, c in chunks if c != "[DONE]" and c["choices"]]
    assert "".join(texts) == "user:a"  # an echo of its prompt
    assert kind == "route"
    ((instance,),) = route["attempts"]
    assert (instance["id"], instance["zone"]) == (INSTANCE, OFFER.zone_id)
    assert (route["prompt_tokens"], route["output_tokens"]) == (len("user:ab\n"), 6)
    assert route["usd"] == pytest.approx(OFFER.usd_per_hour / 3600)  # one request a second is what it sustains
    assert API_KEY not in answer.text


def test_an_instance_that_is_not_on_record_is_named_all_the_same(chatting: Api) -> None:
    _, route = events(chatting.post("/playground:chat", said("ab")).text)[-1]
    assert [[each["id"] for each in attempt] for attempt in route["attempts"]] == [[INSTANCE]]
    assert route["usd"] == 0


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"key": "medley_0123456789ab_wrong"}, "API key"),
        ({"key": ""}, "API key"),
        ({"model": "nobody"}, "nobody"),
        ({"max_tokens": 900_000}, "context"),
    ],
)
def test_what_the_gateway_refuses_is_said_and_signs_nobody_out(chatting: Api, asked: dict[str, Any], hint: str) -> None:
    refused = chatting.post("/playground:chat", said("ab", **asked))
    assert refused.status_code == 409
    assert hint in refused.json()["detail"]
    assert "wrong" not in refused.text


def test_without_a_gateway_it_says_how_to_name_one(viewer: Api) -> None:
    refused = viewer.post("/playground:chat", said("ab"))
    assert (refused.status_code, "--gateway" in refused.json()["detail"]) == (409, True)


def test_a_gateway_that_is_gone_is_an_outage(database: Database, tmp_path: Path) -> None:
    app = app_of(database, tmp_path, replace(SETTINGS, gateways=("http://127.0.0.1:9",)))
    with TestClient(app, raise_server_exceptions=False) as client:
        refused = Api(client, token_of(database, Role.VIEWER)).post("/playground:chat", said("ab"))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_clients_that_do_not_ask_are_told_of_no_instance(world: World) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "ab"}], "max_tokens": 4, "stream": True}
    with world.http() as http:
        plain = http.post("/v1/chat/completions", json=body).text
        told = http.post("/v1/chat/completions", json=body, headers={"x-medley-explain": "1"}).text
    assert INSTANCE not in plain
    (line,) = [line for line in told.splitlines() if line.startswith(": medley ")]
    assert json.loads(line.removeprefix(": medley ")) == {"served_by": [[[INSTANCE]]]}
    assert told.splitlines()[-2] == "data: [DONE]" or told.rstrip().endswith("data: [DONE]")


def test_phases_cost_their_own_tokens(database: Database) -> None:
    kept_plan(database, "chat")
    serving(database, "chat", now(), INSTANCE)
    (view,) = instance_views(database)
    prefill = replace(view, work={"m/prefill": 1000.0}, usd_per_hour=3.6)
    decode = replace(view, work={"m/decode": 10.0}, usd_per_hour=7.2)
    assert answer_usd([prefill, decode], 500, 20) == pytest.approx(0.001 * 0.5 + 0.002 * 2)
    assert answer_usd([replace(view, work={})], 500, 20) == 0


def test_no_more_chats_are_asked_of_a_gateway_than_may_be_open_and_what_ends_makes_room(
    chatting: Api, world: World, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playground, "_chats", asyncio.Semaphore(1))
    for _ in range(2):
        assert chatting.post("/playground:chat", said("ab", model="nobody")).status_code == 409
        assert chatting.post("/playground:chat", said("ab")).status_code == 200
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = replace(SETTINGS, gateways=(f"http://127.0.0.1:{silent.getsockname()[1]}",))
        with TestClient(app_of(database, tmp_path / "silent", settings), raise_server_exceptions=False) as client:
            api, first = Api(client, token_of(database, Role.VIEWER)), list[int]()
            monkeypatch.setattr(playground, "_chats", asyncio.Semaphore(1))
            waits = threading.Thread(
                target=lambda: first.append(api.post("/playground:chat", said("ab")).status_code), daemon=True
            )
            waits.start()
            asked, _ = silent.accept()
            assert api.post("/playground:chat", said("ab")).status_code == 503
            asked.close()
            waits.join(120)
            assert first == [503]
            assert not playground._chats.locked()


def test_a_chat_whose_client_is_gone_before_the_first_event_holds_nothing() -> None:
    closed = []

    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1"

    async def scenario() -> None:
        held = AsyncExitStack()
        held.callback(closed.append, True)

        async def receive() -> dict[str, str]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(_: object) -> None:
            raise OSError("the client is gone")

        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        with pytest.raises(Exception):  # noqa: B017, PT011
            await ChatResponse(events(), held)(scope, receive, send)

    asyncio.run(scenario())
    assert closed == [True]
