"""A model at zero: requests for it wait at the gateway, and go on in order when something serves it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
from openai.types import Completion

from bench.text_tables import WHOLE, member, text_model
from control.gateway.published import Hold
from tests.control.gateway.world import API_KEY, MODEL, World

HELD = f'medley_gateway_held_calls{{model="{MODEL}"}}'


@contextmanager
def at_zero(folder: Path, *gateway: str, most: int = 8, timeout_s: float = 200.0) -> Iterator[World]:
    world = World(folder, model={"hold": Hold(most, timeout_s)})
    try:
        world.publish()
        world.start_gateway(*gateway)
        yield world
    finally:
        world.stop()


def ask(world: World, prompt: str) -> Completion:
    return world.client(timeout=240).completions.create(model=MODEL, prompt=prompt, max_tokens=4)


@contextmanager
def asked_in_turn(world: World, prompts: list[str]) -> Iterator[list[Future[Completion]]]:
    """One after the other, each held before the next is sent."""
    with ThreadPoolExecutor(len(prompts)) as pool:
        futures = []
        for n, prompt in enumerate(prompts):
            futures.append(pool.submit(ask, world, prompt))
            world.wait_for(HELD, n + 1)
        yield futures


@contextmanager
def one_is_held(world: World) -> Iterator[None]:
    """The request of a client that leaves in the end."""
    with socket.create_connection(("127.0.0.1", int(world.url.rpartition(":")[2]))) as raw:
        body = b'{"model": "echo-1", "prompt": "x", "max_tokens": 4}'
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n"
        raw.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        world.wait_for(HELD, 1)
        yield


def launch(world: World, *arguments: str) -> None:
    world.echo("e1", *arguments)
    world.publish()


def until(condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_requests_wait_and_are_served_in_the_order_in_which_they_came(tmp_path: Path):
    with at_zero(tmp_path) as world, asked_in_turn(world, ["aaaa", "bbbb", "cccc"]) as futures:
        done: list[int] = []
        for n, future in enumerate(futures):
            future.add_done_callback(lambda _, n=n: done.append(n))
        launch(world, "--max-running", "1", "--step-s", "0.1")  # one at a time, so that the order shows
        assert [future.result().choices[0].text for future in futures] == ["aaaa", "bbbb", "cccc"]
        assert done == [0, 1, 2]
        assert world.metrics()[HELD] == 0


def test_an_answer_without_a_limit_is_as_long_as_what_came_has_room_for(tmp_path: Path):
    with at_zero(tmp_path) as world, ThreadPoolExecutor(1) as pool:
        client = world.client(timeout=240)
        future = pool.submit(
            client.chat.completions.create, model=MODEL, messages=[{"role": "user", "content": "abcd"}]
        )
        world.wait_for(HELD, 1)
        world.model["context_tokens"] = 100  # of 20,000 when it was asked
        launch(world)
        done = future.result()
        assert (done.choices[0].finish_reason, done.usage.total_tokens) == ("length", 100)


def test_a_full_queue_and_a_wait_that_is_too_long_say_when_to_come_again(tmp_path: Path):
    with at_zero(tmp_path, most=1, timeout_s=200.0) as world:
        with one_is_held(world):
            with pytest.raises(openai.RateLimitError, match="requests wait for it already") as full:
                ask(world, "second")
            assert 1 <= int(full.value.response.headers["retry-after"]) <= 200
        world.wait_for(HELD, 0)
        world.model["hold"] = Hold(1, 1.0)
        world.publish()
        world.wait_for("medley_gateway_table_version", world.version)
        with pytest.raises(openai.InternalServerError, match=r"waited 1 s") as late:
            ask(world, "first")
        assert late.value.status_code == 503
        assert int(late.value.response.headers["retry-after"]) == 1
        world.wait_for(HELD, 0)


def test_a_client_that_leaves_gives_its_place_free(tmp_path: Path):
    with at_zero(tmp_path, most=1) as world:
        with one_is_held(world):
            pass
        world.wait_for(HELD, 0)
        with ThreadPoolExecutor(1) as pool:
            after = pool.submit(ask, world, "abcd")
            world.wait_for(HELD, 1)
            launch(world)
            assert after.result().choices[0].text == "abcd"


def test_a_stream_that_waits_is_kept_alive_and_then_answered(tmp_path: Path):
    with at_zero(tmp_path, "--hold-comment-s", "0.05") as world:
        body = {"model": MODEL, "prompt": "abcd", "max_tokens": 4, "stream": True}
        with world.http() as http, http.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert [next(lines), next(lines), next(lines)] == [
                ": waiting for an instance",
                "",
                ": waiting for an instance",
            ]
            launch(world)
            events = [line for line in lines if line.startswith("data: ")]
        assert events[-1] == "data: [DONE]"
        assert len(events) > 1


def test_the_official_client_reads_a_stream_that_waited(tmp_path: Path):
    with at_zero(tmp_path, "--hold-comment-s", "0.05") as world:
        timer = threading.Timer(0.3, launch, [world])
        timer.start()
        chunks = world.client().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=7, stream=True
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "user:hi"
        timer.join()


def test_a_stream_that_waits_too_long_ends_with_an_error_that_clients_raise(tmp_path: Path):
    with at_zero(tmp_path, "--hold-comment-s", "0.05", timeout_s=0.5) as world:
        stream = world.client().completions.create(model=MODEL, prompt="x", max_tokens=4, stream=True)
        with pytest.raises(openai.APIError, match="Nothing serves"):
            list(stream)


def test_requests_are_held_longer_than_a_request_may_take(tmp_path: Path):
    with at_zero(tmp_path, "--request-timeout-s", "3") as world, asked_in_turn(world, ["abcd"]) as (future,):
        time.sleep(3.5)
        launch(world)
        assert future.result().choices[0].text == "abcd"


def test_a_model_that_is_taken_out_of_the_table_fails_those_who_wait(tmp_path: Path):
    with at_zero(tmp_path) as world, asked_in_turn(world, ["abcd"]) as (future,):
        world.model = {"routing": text_model("another")}
        world.publish()
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            future.result()


def test_the_queue_drains_no_faster_than_what_came_can_serve(tmp_path: Path):
    prompts = ["a" * 10] * 6
    with at_zero(tmp_path, "--max-wait-s", "0.1") as world, asked_in_turn(world, prompts) as futures:
        world.echo("e1")
        world.rate = 2.0  # half a second a request
        start_s = time.monotonic()
        world.publish()
        for future in futures:
            future.result()
        assert time.monotonic() - start_s > 1.5


def test_without_a_queue_a_model_at_zero_refuses_at_once(tmp_path: Path):
    with at_zero(tmp_path) as world:
        world.model = {}
        world.publish()
        until(lambda: world.metrics()["medley_gateway_table_version"] == world.version)
        with pytest.raises(openai.InternalServerError, match="No instance serves"):
            ask(world, "x")


def test_long_prompts_go_to_the_part_that_has_instances_for_them(tmp_path: Path):
    with at_zero(tmp_path) as world:
        world.echo("short")
        world.echo("long")
        short = text_model(MODEL, [member(MODEL, "short", "z1", WHOLE, 1e9)])
        world.model = {"routing": short, "max_prompt_tokens": 10, "longer": f"{MODEL}-long"}
        world.publish(longer="long")
        world.wait_ready()
        for prompt in ("x" * 10, "x" * 11):
            assert ask(world, prompt).model == MODEL
        metrics = world.metrics()
        assert metrics[f'medley_gateway_prompt_tokens_total{{model="{MODEL}"}}'] == 10
        assert metrics[f'medley_gateway_prompt_tokens_total{{model="{MODEL}-long"}}'] == 11
        with httpx.Client(headers={"authorization": f"Bearer {API_KEY}"}, timeout=60) as http:
            assert [m["id"] for m in http.get(f"{world.url}/v1/models").json()["data"]] == [MODEL]
