"""An app under `late-pull-v1` through a real gateway: pictures go to the encoder that is done first, and whoever writes
is chosen once their rows are there."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from policies.routing import BY_ID, BY_LOAD
from tests.agents.tensors.nodes import SETTINGS, run_node, wait_until
from tests.control.gateway.app_world import AppWorld, asked, image

LARGE = (48, 24)
"""Pixels: as many rows as three pictures of the usual size."""
WRITERS = ("writer-0", "writer-1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppWorld]:
    with run_node(SETTINGS) as node:
        world = AppWorld(tmp_path_factory.mktemp("pools"), node=node, policy=BY_LOAD)
        try:
            for number in range(2):
                world.executor(f"eye-{number}")
                world.decoder(f"writer-{number}")
            world.publish_app()
            world.start_gateway("--preprocessor-slab-mib", "8", "--lost-after-s", "120")  # some are stopped for a while
            world.wait_ready()
            yield world
        finally:
            world.stop()


def under(world: AppWorld, policy: str) -> None:
    world.policy = policy
    world.publish_app()
    world.wait_for("medley_gateway_table_version", world.version)


def told(world: AppWorld, body: dict[str, Any]) -> dict[str, Any]:
    """Who served a request, as its client is told; it has one answer."""
    with world.http() as http:
        answer = http.post("/v1/chat/completions", json=body | {"stream": True}, headers={"x-medley-explain": "1"})
    assert answer.status_code == 200, answer.text + world.gateway_log
    (line,) = [line for line in answer.text.splitlines() if line.startswith(": medley ")]
    return {key: value[0] for key, value in json.loads(line.removeprefix(": medley ")).items()}


def waits_s(world: AppWorld, *names: str) -> float:
    """Work that waits at some, as the gateway knows it."""
    found = world.metrics()
    return sum(found[f'medley_gateway_instance_pending_seconds{{instance="{name}"}}'] for name in names)


@pytest.mark.parametrize("policy", [BY_LOAD, BY_ID])
def test_the_policy_says_whether_a_large_picture_is_encoded_beside_the_small_ones(world: AppWorld, policy: str) -> None:
    under(world, policy)
    body = asked("which?", max_tokens=4)
    sizes = [(*LARGE, 30), (24, 16, 31), (24, 16, 32), (24, 16, 33)]
    content = [image(seed, (width, height)) for width, height, seed in sizes]
    body["messages"][0]["content"] = [*content, {"type": "text", "text": "which?"}]
    large, *small = told(world, body)["encoded_by"]
    if policy == BY_LOAD:
        assert {large, *small} == {"eye-0", "eye-1"}
        assert large not in small
    else:
        assert set(small) == {"eye-0", "eye-1"}, "members take turns, whatever a picture takes"
    under(world, BY_LOAD)


def test_who_writes_is_the_one_with_the_least_to_do_also_once_rows_are_there(world: AppWorld) -> None:
    under(world, BY_LOAD)
    bodies = [asked("x" * 3000, max_tokens=2)] + [asked("y", max_tokens=2)] * 2 + [asked("z", 40, max_tokens=2)]
    told(world, asked("warm", 39, max_tokens=1))
    for name in WRITERS:  # they take nothing meanwhile
        world.echoes[name].child.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(len(bodies)) as clients:
        asking: list[Future[dict[str, Any]]] = []
        try:
            for body in bodies:
                before = waits_s(world, *WRITERS)
                asking.append(clients.submit(told, world, body))
                wait_until(lambda before=before: waits_s(world, *WRITERS) > before)  # type: ignore[misc]
        finally:
            for name in WRITERS:
                world.echoes[name].child.send_signal(signal.SIGCONT)
        ((long,), *_), *others = (each.result()["served_by"] for each in asking)
    assert {first for (first,), *_ in others} == {*WRITERS} - {long}, "the first attempt at each"
    wait_until(lambda: waits_s(world, *WRITERS) == 0)


def test_what_an_encoder_that_dies_had_is_encoded_by_the_others(world: AppWorld) -> None:
    under(world, BY_LOAD)
    victim = world.echoes["eye-0"]
    victim.child.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as client:
        try:
            asking = client.submit(told, world, asked("and?", *range(50, 54), max_tokens=4))
            wait_until(lambda: waits_s(world, "eye-0") > 0)
        finally:
            victim.stop(signal.SIGKILL)
        assert asking.result()["encoded_by"] == ["eye-1"] * 4
    wait_until(lambda: waits_s(world, "eye-0", "eye-1") == 0)
