"""A gateway of two workers, as its clients, its keys' holders, its operator and Prometheus meet it."""

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest

from control.gateway.published import Hold
from tests.control.db.processes import lives, wait_until
from tests.control.gateway.test_failures import SLOW, echoed, first_text, rest_of, stream_of
from tests.control.gateway.world import API_KEY, MODEL, World

pytestmark = pytest.mark.slow

ANSWERED = 'medley_gateway_requests_total{endpoint="/v1/completions",status="200"}'
MADE = f'medley_gateway_output_tokens_total{{model="{MODEL}"}}'


@contextmanager
def two_workers(folder: Path, *options: str, **limits: int) -> Iterator[World]:
    """`limits`: of the key."""
    world = World(folder, key=limits)
    try:
        world.echo("e1", *SLOW)
        world.echo("e2", *SLOW)
        world.publish()
        world.start_gateway("--workers", "2", *options)
        world.wait_ready()
        started = processes(world)
        yield world
        assert world.gateway is not None
        assert world.gateway.stop() == 0
        assert not any(lives(each.pid) for each in started), "workers end with their supervisor"
    finally:
        world.stop()


def processes(world: World) -> list[psutil.Process]:
    assert world.gateway is not None
    return psutil.Process(world.gateway.child.pid).children()


def ask(world: World, tokens: int = 2) -> int:
    """Status of an answer over a connection of its own, which either worker may get."""
    body = {"model": MODEL, "prompt": "abcd", "max_tokens": tokens, "ignore_eos": True}
    headers = {"authorization": f"Bearer {API_KEY}"}
    url = f"{world.url}/v1/completions"
    return httpx.post(url, json=body, headers=headers, timeout=120, verify=False).status_code  # noqa: S501 - no TLS


def ask_often(world: World, times: int) -> Counter[int]:
    with ThreadPoolExecutor(8) as pool:
        return Counter(pool.map(lambda _: ask(world), range(times)))


def lines_of(world: World) -> list[dict[str, Any]]:
    """The log, but for a line that is being written."""
    return [json.loads(line) for line in world.gateway_log.split("\n")[:-1]]


def workers_asked(world: World) -> list[int]:
    return [line["worker"] for line in lines_of(world) if line["message"] == "/v1/completions"]


def wait_restarted(world: World, workers: int) -> None:
    """Until so many, or more, have been started again, and both take connections."""

    def is_so() -> bool:
        try:
            found = world.metrics()
        except httpx.TransportError:  # nobody listens
            return False
        return found["medley_gateway_worker_restarts_total"] >= workers and found["medley_gateway_workers"] == 2

    wait_until(is_so)


def test_a_keys_limits_hold_whichever_worker_its_requests_meet(tmp_path: Path):
    with two_workers(tmp_path, requests_per_minute=20, concurrent_requests=12) as world:
        began_s = time.monotonic()
        found = ask_often(world, 60)
        most = 20 * (1 + (time.monotonic() - began_s) / 60)
        assert set(found) == {200, 429}
        assert 20 <= found[200] <= most
        wait_until(lambda: len(workers_asked(world)) == 60)
        assert set(workers_asked(world)) == {0, 1}

        world.wait_for(ANSWERED, found[200])
        for _ in range(8):  # whoever is asked says what both have counted, once
            metrics = world.metrics()
            assert metrics[ANSWERED] == found[200]
            assert metrics[MADE] == 2 * found[200]
            assert metrics["medley_gateway_workers"] == 2


@pytest.mark.parametrize(
    ("options", "limits"), [((), {"concurrent_requests": 4}), (("--max-open-calls", "4"), {})], ids=["key", "gateway"]
)
def test_requests_that_are_open_are_counted_over_both_and_those_of_a_worker_that_is_killed_no_more(
    tmp_path: Path, options: tuple[str, ...], limits: dict[str, int]
):
    with two_workers(tmp_path, *options, **limits) as world:
        streams = [stream_of(world, "abcd", 15_000) for _ in range(4)]
        for stream in streams:
            first_text(stream)
        assert ask_often(world, 16) == {429: 16}
        for worker in processes(world):
            worker.kill()
        for stream in streams:
            with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
                rest_of(stream)
        wait_restarted(world, 2)
        assert ask_often(world, 4) == {200: 4}


def test_a_worker_that_is_killed_breaks_its_own_streams_and_another_takes_its_place(tmp_path: Path):
    with two_workers(tmp_path) as world:
        assert ask_often(world, 30) == {200: 30}
        world.wait_for(ANSWERED, 30)
        streams = [stream_of(world, f"{n} abcdefghij ", 1500) for n in range(16)]
        begun = [first_text(stream) for stream in streams]
        killed, other = processes(world)
        killed.kill()
        whole = 0
        for n, (start, stream) in enumerate(zip(begun, streams, strict=True)):
            try:
                text, reason, tokens = rest_of(stream)
            except (openai.APIConnectionError, httpx.TransportError):
                continue  # the client's own error for a connection that broke: it may ask again
            whole += 1
            assert start + text == echoed(f"{n} abcdefghij ", 1500)
            assert (reason, tokens) == ("length", 1500)
        assert 0 < whole < 16

        wait_restarted(world, 1)
        assert httpx.get(f"{world.url}/readyz", timeout=120).json()["ready"] == [MODEL]
        assert other in processes(world)
        assert killed not in processes(world)
        assert ask_often(world, 30) == {200: 30}
        world.wait_for(ANSWERED, 60 + whole)  # what the killed one had counted stays
        assert any(line["level"] == "error" and "worker" in line["message"] for line in lines_of(world))


def test_workers_that_hang_are_replaced_and_what_they_held_is_given_back(tmp_path: Path):
    options = ("--worker-silence-s", "5", "--max-open-calls", "4")
    with two_workers(tmp_path, *options, concurrent_requests=4) as world:
        streams = [stream_of(world, "abcd", 15_000) for _ in range(4)]
        for stream in streams:
            first_text(stream)
        hung = processes(world)
        for worker in hung:
            worker.suspend()
        for stream in streams:
            with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
                rest_of(stream)
        wait_restarted(world, 2)
        assert not any(lives(worker.pid) for worker in hung)
        assert ask_often(world, 4) == {200: 4}
        processes(world)[0].suspend()  # the gateway ends all the same, with code 0


def test_requests_are_held_as_many_as_a_model_at_zero_may_have_whichever_worker_they_meet(tmp_path: Path):
    world = World(tmp_path, model={"hold": Hold(8, 240.0)})
    try:
        world.publish()
        world.start_gateway("--workers", "2")
        with ThreadPoolExecutor(40) as pool:
            asked = [pool.submit(ask, world) for _ in range(40)]
            refused = [each.result() for _, each in zip(range(32), as_completed(asked), strict=False)]
            assert refused == [429] * 32
            world.wait_for(f'medley_gateway_held_calls{{model="{MODEL}"}}', 8)
            world.echo("e1")
            world.publish()
            assert Counter(each.result() for each in asked) == {200: 8, 429: 32}
    finally:
        world.stop()


def test_answers_under_way_are_finished_by_all_workers_before_the_gateway_ends(tmp_path: Path):
    with two_workers(tmp_path) as world:
        assert world.gateway is not None
        streams = [stream_of(world, "bye ", 300) for _ in range(8)]
        begun = [first_text(stream) for stream in streams]
        world.gateway.child.send_signal(signal.SIGINT)
        for start, stream in zip(begun, streams, strict=True):
            assert start + rest_of(stream)[0] == echoed("bye ", 300)
        assert world.gateway.child.wait(timeout=60) == 0
        with pytest.raises(httpx.ConnectError):
            ask(world)


def test_a_port_is_taken_until_its_gateway_is_gone_however_that_ends(tmp_path: Path):
    with two_workers(tmp_path) as world:
        gateway, port = world.gateway, world.url.rpartition(":")[2]
        assert gateway is not None
        with pytest.raises(AssertionError, match="Address already in use"):
            world.start_gateway("--workers", "2", "--port", port)  # the later of two ports counts
        world.gateway = gateway
        assert ask(world) == 200
        started = processes(world)
        gateway.stop(signal.SIGKILL)
        wait_until(lambda: not any(lives(each.pid) for each in started))
        world.start_gateway("--workers", "2", "--port", port)
        world.wait_ready()
        assert ask(world) == 200
