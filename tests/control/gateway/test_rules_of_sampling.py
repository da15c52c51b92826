"""Penalties, biases and lengths that a client asks for, as schedulers get them; and those that know none of them."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.echo.scheduler import EchoScheduler, EchoSettings
from agents.messages.to_gateway import Status
from agents.messages.to_scheduler import LogitRules, Sampling
from bench.text_tables import WHOLE, member, text_model
from control.gateway.api_error import ApiError
from control.gateway.bodies import ChatBody, CompletionBody, read_body
from control.gateway.call import Call
from control.gateway.chat_request import chat_params
from control.gateway.completion_request import completion_params
from control.gateway.generation import cache_salt_of
from control.gateway.model_entry import ModelEntry
from control.gateway.published import AccessKey, PublishedModel
from control.gateway.tokenizer_source import load_tokenizer
from control.gateway.wanted import WantedAnswer, wanted_answers
from policies.routing import ROUTING_POLICIES
from tests.control.gateway.echo_fleet import EchoFleet, echo_fleet, ended, whole
from tests.control.gateway.world import byte_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = byte_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    (folder / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1.1, "min_p": 0.05}))
    return folder


@pytest.fixture
def entry(folder: Path) -> Iterator[ModelEntry]:
    served = PublishedModel(text_model("m", [member("m", "e1", "z", WHOLE)]), "", 1000, 0)
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    try:
        yield loop.run_until_complete(_entry(served, folder))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _entry(served: PublishedModel, folder: Path) -> ModelEntry:
    return ModelEntry(served, load_tokenizer(folder))


def wanted(entry: ModelEntry, kind: type[Any] = CompletionBody, **fields: Any) -> list[WantedAnswer]:
    body = read_body(msgspec.json.encode({"model": "m", **fields}), kind)
    params = completion_params(body) if kind is CompletionBody else chat_params(body)
    return asyncio.get_event_loop().run_until_complete(wanted_answers(params, {"m": entry}))


def test_what_is_asked_reaches_the_scheduler(entry: ModelEntry) -> None:
    fields = {
        "presence_penalty": 0.5,
        "frequency_penalty": -0.25,
        "repetition_penalty": 1.5,
        "min_p": 0.1,
        "logit_bias": {"7": -100, "9": 2.5},
        "min_tokens": 3,
        "stop_token_ids": [65, 66],
        "max_tokens": 8,
    }
    (one,) = wanted(entry, prompt="abcd", **fields)
    stops = (*entry.tokenizer.stop_ids, 65, 66)
    assert one.stop_ids == stops
    assert one.sampling.rules == LogitRules(0.5, -0.25, 1.5, 0.1, ((7, -100.0), (9, 2.5)), stops, 4 + 3)
    (chat,) = wanted(entry, ChatBody, messages=[{"role": "user", "content": "hi"}], presence_penalty=1.0)
    assert chat.sampling.rules is not None
    assert chat.sampling.rules.presence_penalty == 1.0


def test_what_is_left_open_is_as_the_models_files_have_it(entry: ModelEntry) -> None:
    (plain,) = wanted(entry, prompt="a")
    assert plain.sampling.rules == LogitRules(repetition_penalty=1.1, min_p=0.05)
    (none,) = wanted(entry, prompt="a", repetition_penalty=1.0, min_p=0.0, presence_penalty=0, logit_bias={})
    assert none.sampling.rules is None


def test_answers_to_one_prompt_have_seeds_of_their_own_and_the_first_that_of_one_alone(entry: ModelEntry) -> None:
    seeds = [one.sampling.seed for one in wanted(entry, prompt="a", n=3, seed=5)]
    assert seeds == [5, 6, 7]
    assert [one.sampling.seed for one in wanted(entry, prompt=["a", "b"], n=2, seed=5)] == [5, 6, 5, 6]
    assert [one.is_first for one in wanted(entry, prompt=["a", "b"], n=2)] == [True, False, True, False]
    assert len({one.sampling.seed for one in wanted(entry, prompt="a", n=9)}) == 9


class FormerScheduler(EchoScheduler):
    """One of the release before says nothing of rules."""

    @property
    def status(self) -> Status:
        return msgspec.structs.replace(super().status, obeys_rules=False)


def test_projects_share_no_cache_and_keys_of_one_do() -> None:
    one, other, elsewhere = (AccessKey(name, "0" * 64, project) for name, project in zip("abc", "ppq", strict=True))
    for given in ("", "mine"):
        assert cache_salt_of(one, given) == cache_salt_of(other, given) != cache_salt_of(elsewhere, given)
        assert cache_salt_of(None, given) == given
    assert cache_salt_of(one, "mine") != cache_salt_of(one, "")


def test_a_salt_reaches_the_scheduler(tmp_path: Path) -> None:
    bodies = (
        CompletionBody(model="m", prompt="x", cache_salt="mine"),
        ChatBody(model="m", messages=[], cache_salt="mine"),
    )
    params = completion_params(bodies[0]), chat_params(bodies[1])
    assert [each.cache_salt for each in params] == ["mine", "mine"]

    async def scenario() -> None:
        with echo_fleet(tmp_path, one=EchoSettings()) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, text_model("m", [whole("one", 0.01)]))
            await fleet.usable(dispatcher)
            call = Call(replace(fleet.call(1).asked, cache_salt="mine"))
            dispatcher.start(call)
            await ended(call)
            assert [asked.cache_salt for asked in fleet.schedulers["one"].calls] == ["mine"]

    asyncio.run(scenario())


class MixedFleet(EchoFleet):
    scheduler = FormerScheduler


@pytest.mark.parametrize("policy", ROUTING_POLICIES)
def test_an_instance_of_the_release_before_is_not_asked_for_what_it_would_read_over(
    tmp_path: Path, policy: str
) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, MixedFleet, old=EchoSettings()) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, replace(text_model("m", [whole("old", 0.01)]), policy=policy))
            await fleet.usable(dispatcher)
            rules = LogitRules(presence_penalty=1.0)
            with pytest.raises(ApiError, match="earlier release") as refused:
                dispatcher.check_able(dispatcher.models["m"], rules)
            assert refused.value.status == 503
            plain, asks = fleet.call(5), fleet.call(5)
            sampling = Sampling(0.0, 1.0, 0, 0, None, rules)
            asks = Call(replace(asks.asked, sampling=sampling, must_obey=True))
            # The default of a model's files is obeyed by whoever knows it, and was read over before.
            default = Call(replace(plain.asked, request="default", sampling=sampling))
            for call in (plain, asks, default):
                dispatcher.start(call)
            assert len((await ended(plain)).generated) == len((await ended(default)).generated) == 5
            end = (await ended(asks)).end
            assert isinstance(end, ApiError)
            assert end.status == 503
            assert len(fleet.schedulers["old"].calls) == 2

    asyncio.run(scenario())
