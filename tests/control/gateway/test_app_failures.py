"""Executors and decoders of an app die under load: no request is lost, and nothing of an answer comes twice."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agents.tensors.nodes import SETTINGS, run_node, wait_until
from tests.control.gateway.app_world import AppWorld, asked, expected

pytestmark = pytest.mark.slow

CLIENTS, TOKENS = 6, 60


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AppWorld]:
    with run_node(SETTINGS) as node:
        world = AppWorld(tmp_path, node=node)
        try:
            for number in range(2):
                world.executor(f"eye-{number}")
                world.decoder(f"writer-{number}", "--step-s", "0.005")
            world.publish_app()
            world.start_gateway("--preprocessor-slab-mib", "8")
            world.wait_ready()
            yield world
        finally:
            world.stop()


def test_requests_with_pictures_take_turns_among_decoders(world: AppWorld) -> None:
    """Of two, one is lost with a decoder."""
    open_lines = []  # an answer ends with what reads its lines
    with world.http() as http, ExitStack() as open_:
        for seed in range(2):
            body = asked("and?", seed, max_tokens=10_000, stream=True)
            answer = open_.enter_context(http.stream("POST", "/v1/chat/completions", json=body))
            lines = answer.iter_lines()
            while '"content":"<' not in next(lines):
                pass
            open_lines.append(lines)
        world.echoes["writer-0"].stop(signal.SIGKILL)
        wait_until(lambda: resumed(world) > 0)
        assert resumed(world) == 1


def resumed(world: AppWorld) -> float:
    return sum(value for name, value in world.metrics().items() if name.startswith("medley_gateway_resumptions_total"))


def test_no_request_is_lost_whoever_dies(world: AppWorld) -> None:
    over, done = threading.Event(), [0] * CLIENTS

    def keep_asking(client: int) -> list[str]:
        """Whatever was answered and should not be."""
        wrong = []
        with world.http() as http:
            while not over.is_set():
                seeds = (client, 100 + done[client])
                answer = http.post("/v1/chat/completions", json=asked("and?", *seeds, max_tokens=TOKENS))
                content = answer.json()["choices"][0]["message"]["content"] if answer.is_success else answer.text
                if content != expected("and?", 2, TOKENS):
                    wrong.append(content)
                done[client] += 1
        return wrong

    def more() -> None:
        """Every client has been answered twice since now: what was under way is over."""
        before = list(done)
        wait_until(lambda: all(now >= then + 2 for now, then in zip(done, before, strict=True)))

    with ThreadPoolExecutor(CLIENTS) as clients:
        asking = [clients.submit(keep_asking, number) for number in range(CLIENTS)]
        try:
            more()
            for victim in ("eye-0", "writer-0"):
                world.echoes[victim].stop(signal.SIGKILL)
                more()
        finally:
            over.set()
        assert [wrong for each in asking for wrong in each.result()] == []
    assert world.metrics()["medley_gateway_open_calls"] == 0
    assert world.node is not None
    wait_until(lambda: world.node is not None and not world.node.waiting)
