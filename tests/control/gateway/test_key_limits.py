"""Limits of a key per minute, as clients meet them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from control.access.use_limits import UseLimits
from control.gateway.api_error import ApiError
from control.gateway.key_limits import KeyLimits, holders_of
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


def test_going_back_and_forth_between_two_limits_gives_a_key_nothing():
    """Workers of one gateway read a new table at different moments."""
    limits = KeyLimits()
    old, new = (AccessKey("a", "00" * 32, requests_per_minute=each, tokens_per_minute=1000) for each in (20, 10))
    for _ in range(10):  # half of what there is
        assert limits.take(holders_of(old), 1.0, 0.0) is not None
    through = 0
    for n in range(100):
        try:
            limits.take(holders_of(new if n % 2 == 0 else old), 1.0, 0.0)
        except ApiError:
            continue
        through += 1
    assert through <= 10
    charge = limits.take(holders_of(new), 1.0, 60.0)  # a minute later there is a whole new limit
    assert charge is not None
    assert dict(charge.headers)[b"x-ratelimit-remaining-requests"] == b"9"


def test_what_is_refused_for_want_of_capacity_costs_a_key_nothing():
    limits, key = KeyLimits(), AccessKey("a", "00" * 32, "p", 2, 100)
    for n in range(10):
        taken = limits.take(holders_of(key), 90.0, float(n))
        assert taken is not None
        limits.give_back(taken, float(n))
    taken = limits.take(holders_of(key), 90.0, 10.0)
    assert taken is not None
    with pytest.raises(ApiError, match="100 tokens per minute"):
        limits.take(holders_of(key), 90.0, 10.0)
    limits.settle(taken, 5.0, 10.0)
    assert limits.take(holders_of(key), 90.0, 10.0) is not None


def test_a_key_may_have_so_many_requests_open_and_no_more():
    limits, key = KeyLimits(), AccessKey("a", "00" * 32, "p", concurrent_requests=3)
    first, both = limits.take(holders_of(key), 1.0, 0.0), limits.take(holders_of(key), 2.0, 0.0, requests=2)
    assert first is not None
    assert both is not None
    with pytest.raises(ApiError) as refused:
        limits.take(holders_of(key), 1.0, 0.0)
    assert refused.value.status == 429
    assert dict(refused.value.headers)[b"retry-after"] == b"1"
    limits.settle(first, 1.0, 0.0)
    assert limits.take(holders_of(key), 1.0, 0.0) is not None
    for _ in range(2):  # each of two answers is over by itself
        limits.give_back(both, 0.0)
    assert limits.take(holders_of(key), 2.0, 0.0, requests=2) is not None
    with pytest.raises(ApiError) as never:
        limits.take(holders_of(key), 4.0, 0.0, requests=4)
    assert (never.value.status, never.value.param) == (400, "n")


def test_keys_of_a_project_share_its_limits_and_what_is_refused_takes_nothing():
    of_project = UseLimits(requests_per_minute=3, concurrent_requests=2)
    limits = KeyLimits()
    one = AccessKey("a", "00" * 32, "p", requests_per_minute=2, project_limits=of_project)
    other = AccessKey("b", "00" * 32, "p", project_limits=of_project)
    stranger = AccessKey("c", "00" * 32, "q")
    taken = [limits.take(holders_of(one), 1.0, 0.0), limits.take(holders_of(other), 1.0, 0.0)]
    for _ in range(5):
        with pytest.raises(ApiError, match="project"):
            limits.take(holders_of(other), 1.0, 0.0)
    for each in taken:
        assert each is not None
        limits.settle(each, 1.0, 0.0)
    assert limits.take(holders_of(one), 1.0, 0.0) is not None
    with pytest.raises(ApiError) as refused:  # three a minute: both keys together
        limits.take(holders_of(other), 1.0, 0.0)
    assert dict(refused.value.headers)[b"x-ratelimit-limit-requests"] == b"3"
    assert limits.take(holders_of(stranger), 1e9, 0.0) is None


def test_holders_of_whom_nothing_needs_to_be_known_are_forgotten():
    limits = KeyLimits()
    for n in range(5000):
        charge = limits.take(holders_of(AccessKey(f"{n}", "00" * 32, requests_per_minute=60)), 1.0, float(n))
        assert charge is not None
        limits.settle(charge, 1.0, float(n))
    assert len(limits._uses) < 2000


def test_who_is_being_charged_is_not_forgotten_for_its_project():
    limits = KeyLimits()
    project = UseLimits(concurrent_requests=1)
    own = AccessKey("own", "00" * 32, project="p", requests_per_minute=60, project_limits=project)
    for n in range(1023):
        before = limits.take(holders_of(AccessKey(f"{n}", "00" * 32, requests_per_minute=60)), 1.0, 0.0)
        assert before is not None
        limits.settle(before, 1.0, 0.0)
    for now_s in (1000.0, 1060.0):  # the 1024th is its key, and its project comes after those have gone idle
        charge = limits.take(holders_of(own), 1.0, now_s)
        assert charge is not None
        limits.settle(charge, 1.0, now_s)


def test_requests_that_are_open_are_counted_until_their_clients_leave(tmp_path: Path):
    with limited(tmp_path, concurrent_requests=1) as world:
        stream = world.client().completions.create(
            model=MODEL, prompt="abcd", max_tokens=10_000, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as refused:
            ask(world)
        assert refused.value.response.headers["retry-after"] == "1"
        stream.close()
        world.wait_for("medley_gateway_open_calls", 0)
        ask(world)
