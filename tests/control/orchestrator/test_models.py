"""Calls of models: a real gateway, and a scheduler that echoes."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench.text_tables import WHOLE, member, text_model
from control.actions.workflows import resume_run
from control.db.database import Database
from control.orchestrator.model_calls import ModelCalls
from control.runs.run_state import RunState
from tests.control.gateway import world as gateways
from tests.control.gateway.world import API_KEY, MODEL
from tests.control.orchestrator.world import World

USD_PER_HOUR = 3600.0
TOKENS_PER_S = 1e5
"""A million tokens cost 10 $."""
_BUDGET = 0.001


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gateways.World]:
    world = gateways.World(tmp_path_factory.mktemp("gateway"))
    try:
        world.echo("e1")
        priced = replace(member(MODEL, "e1", "z1", WHOLE, TOKENS_PER_S), usd_per_hour=USD_PER_HOUR)
        means = {"mean_prompt_tokens": 1.0, "mean_output_tokens": 0.0}
        world.model = {"routing": text_model(MODEL, [priced], per_request=1.0), **means}
        world.publish()
        world.start_gateway()
        world.wait_ready()
        yield world
    finally:
        world.stop()


@pytest.fixture
def world(database: Database, gateway: gateways.World) -> Iterator[World]:
    made = World(database)
    made.push()
    with made.orchestrator(models=ModelCalls(gateway.url, lambda _: API_KEY)):
        yield made


def test_the_reply_of_one_model_is_asked_of_another(world: World) -> None:
    run = world.start("asks", question="abc")
    assert world.answer(run) == "user:use"  # eight tokens of "user:user:abc"
    found = world.ended(run)
    assert found.usd == pytest.approx(sum(call.usd for call in world.runs.calls(run)))
    tokens = [len("user:abc\n") + 8, len("user:user:abc\n") + 8]
    assert found.usd == pytest.approx(sum(tokens) * USD_PER_HOUR / TOKENS_PER_S / 3600)


def test_the_call_that_would_exceed_the_budget_is_not_made(world: World) -> None:
    run = world.start("saves", question="abc")
    answers = int(world.answer(run).split()[0])
    found = world.ended(run)
    calls = world.runs.calls(run)
    assert answers >= 2
    assert len(calls) == answers + 1
    assert calls[-1].started_at is None or calls[-1].usd == 0
    assert found.usd <= _BUDGET < found.usd + calls[0].usd * 2


def test_all_that_is_asked_counts_and_a_call_has_one_answer(gateway: gateways.World) -> None:
    calls = ModelCalls(gateway.url, lambda _: API_KEY)

    def most(asked: object, **params: object) -> float:
        found = calls.most_usd(MODEL, msgspec.msgpack.encode(((asked,), params)), "p")
        assert found is not None
        return found

    plain, bound = most("abc", max_tokens=8), most("abc")
    assert most("abc", max_tokens=-50) <= plain < bound
    assert most("abc", max_tokens=8, tools=[{"type": "x" * 40}]) > plain
    assert most([{"role": "user", "content": "abc", "tool_calls": [{"id": "x" * 40}]}], max_tokens=8) > plain
    picture = [{"type": "image_url", "image_url": {"url": "http://localhost/a.png"}}]
    assert most([{"role": "user", "content": picture}], max_tokens=8) == bound
    several = msgspec.msgpack.encode((("abc",), {"n": 2}))
    answered = calls.call(MODEL, several, "p", {}, time.monotonic() + 60, lambda: False)
    assert answered.failure is not None
    over = calls.call(MODEL, msgspec.msgpack.encode((("abc",), {})), "p", {}, time.monotonic() + 60, lambda: True)
    assert over.failure is not None


def test_a_run_that_is_over_its_budget_goes_on_with_more_of_it(world: World) -> None:
    run = world.start("spends", question="abc")
    assert world.ended(run).state is RunState.OVER_BUDGET
    before = len(world.runs.calls(run))
    resume_run(world.act(), run, {}, max_usd=2 * _BUDGET)
    assert world.ended(run).state is RunState.OVER_BUDGET
    assert len(world.runs.calls(run)) > before


def test_a_model_that_is_not_served_is_an_error_with_the_nearest_name(world: World) -> None:
    run = world.ended(world.start("unknown_model"))
    assert run.state is RunState.FAILED
    assert MODEL in run.reason


def test_a_gateway_that_is_away_is_waited_for_until_the_call_is_late(database: Database, tmp_path: Path) -> None:
    own = World(database)
    own.push(
        "from medley_sdk import model, workflow\n\n\n@workflow\nasync def asks() -> str:\n"
        "    return (await model('m', timeout_s=0.3)('hello')).text\n"
    )
    with own.orchestrator(models=ModelCalls("http://127.0.0.1:9", lambda _: "")):
        run = own.ended(own.start("asks"))
    assert run.state is RunState.FAILED
    assert "no gateway answers" in run.reason
