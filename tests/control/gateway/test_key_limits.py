"""Limits of a key per minute, as clients meet them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from control.gateway.api_error import ApiError
from control.gateway.key_limits import KeyLimits
from control.gateway.published import AccessKey
from tests.control.gateway.world import MODEL, World

Limited = Callable[..., Any]


@contextmanager
def limited(folder: Path, **limits: int) -> Iterator[World]:
    world = World(folder, key=limits)
    try:
        world.echo("e1")
        world.publish()
        world.start_gateway()
        world.wait_ready()
        yield world
    finally:
        world.stop()


def ask(world: World, prompt: str = "abcd", tokens: int = 6) -> httpx.Headers:
    answer = world.client().completions.with_raw_response.create(
        model=MODEL, prompt=prompt, max_tokens=tokens, extra_body={"ignore_eos": True}
    )
    return answer.headers


def test_requests_beyond_the_limit_are_told_when_to_come_again(tmp_path: Path):
    with limited(tmp_path, requests_per_minute=2) as world:
        headers = ask(world)
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] == "1"
        assert "x-ratelimit-limit-tokens" not in headers
        ask(world)
        with pytest.raises(openai.RateLimitError, match="2 requests per minute") as refused:
            ask(world)
        assert refused.value.code == "rate_limit_exceeded"
        assert 1 <= int(refused.value.response.headers["retry-after"]) <= 30
        assert refused.value.response.headers["x-ratelimit-remaining-requests"] == "0"


def test_tokens_are_those_of_prompt_and_answer_as_it_turned_out(tmp_path: Path):
    with limited(tmp_path, tokens_per_minute=1000) as world:
        assert int(ask(world)["x-ratelimit-remaining-tokens"]) == 990
        # 600 may be made, 256 are expected, and 5 are made: only what was used is gone.
        stream = world.client().completions.create(model=MODEL, prompt="abcde", max_tokens=600, stop="e", stream=True)
        list(stream)
        assert int(ask(world)["x-ratelimit-remaining-tokens"]) > 950
        ask(world, "x" * 900, 6)
        with pytest.raises(openai.RateLimitError, match="1000 tokens per minute"):
            ask(world, "x" * 500, 6)


def test_a_new_limit_counts_from_the_next_table_on(tmp_path: Path):
    with limited(tmp_path, requests_per_minute=1) as world:
        ask(world)
        with pytest.raises(openai.RateLimitError):
            ask(world)
        world.key = {}
        world.publish()
        world.wait_for("medley_gateway_table_version", world.version)
        assert "x-ratelimit-limit-requests" not in ask(world)


def test_what_is_refused_for_want_of_capacity_costs_a_key_nothing():
    limits, key = KeyLimits(), AccessKey("a", "00" * 32, "p", 2, 100)
    for n in range(10):
        taken = limits.take(key, 90.0, float(n))
        assert taken is not None
        limits.give_back(taken, float(n))
    taken = limits.take(key, 90.0, 10.0)
    assert taken is not None
    with pytest.raises(ApiError, match="100 tokens per minute"):
        limits.take(key, 90.0, 10.0)
    limits.settle(taken, 5.0, 10.0)
    assert limits.take(key, 90.0, 10.0) is not None
