"""Clients that hold what others need: memory for bodies, and streams that nobody reads."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.api_error import ApiError
from control.gateway.body_budget import BodyBudget
from control.gateway.counts import Counts
from control.gateway.tokenizer_source import load_tokenizer
from tests.control.gateway.world import API_KEY, MODEL, byte_tokenizer, world_of

MIB = 1 << 20


def test_one_account_leaves_half_of_the_memory_for_bodies_to_others():
    budget = BodyBudget(100 * MIB, Counts.of_one())
    flood = [budget.hold(("p", "flood")) for _ in range(10)]
    for hold in flood[:5]:
        hold.add(10 * MIB)
    with pytest.raises(ApiError) as refused:
        flood[5].add(10 * MIB)
    assert refused.value.status == 503
    assert {b"retry-after", b"connection"} <= dict(refused.value.headers).keys()
    other = budget.hold(("q", "other"))
    other.add(25 * MIB)
    for hold in (*flood, other, *flood):
        hold.release()
    budget.hold(("p", "flood")).add(50 * MIB)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans()), max_size=60))
def test_what_is_held_never_exceeds_the_memory_and_all_of_it_comes_back(steps):
    budget, holds = BodyBudget(100, Counts.of_one()), []
    for account, count, releases in steps:
        hold = budget.hold(("", account))
        try:
            hold.add(count)
        except ApiError:
            continue
        holds.append((hold, count))
        if releases:
            holds.pop(0)[0].release()
        assert sum(count for _, count in holds) <= 100
    for hold, _ in holds:
        hold.release()
    budget.hold(("", "d")).add(50)


def test_tokens_of_a_text_are_never_fewer_than_its_length_says(tmp_path: Path):
    tokenizer = load_tokenizer(byte_tokenizer(tmp_path))
    for text in ("", "a", "<end>" * 100, "a<end>ä€\U0001f600" * 50, " " * 999):
        assert tokenizer.least_tokens(text) <= len(tokenizer.encode([text], is_rendered=False)[0])
    assert tokenizer.least_tokens("x" * 10_000) > 1000


@pytest.mark.slow
def test_a_stream_that_nobody_reads_is_cut_off_and_its_request_ended(tmp_path: Path):
    with world_of(tmp_path, {"e1": ("--step-s", "0.002")}, "--write-timeout-s", "0.5") as world:
        # More than all buffers on the way take, which are some MB.
        asked = {"model": MODEL, "prompt": "x" * 60, "max_tokens": 9000, "n": 16, "logprobs": 5, "stream": True}
        body = json.dumps(asked)
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n"
        where = urlsplit(world.url)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((where.hostname, where.port))
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            world.wait_for(f'medley_gateway_disconnects_total{{model="{MODEL}"}}', 1)
            world.wait_for("medley_gateway_open_calls", 0)
