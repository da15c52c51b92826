"""While control plane and database are gone for longer than silent peers are waited for, gateway and nodes serve on,
and they are found again."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from openai import OpenAI, RateLimitError

from control.hub.hub import CHANNEL
from tests.chaos.up_process import MEDLEY, Up
from tests.chaos.victims import of_home
from tests.control.profiles.given import give_profiles
from tests.e2e.conftest import environment
from tests.e2e.test_up_command import QUICK

START_S = 600.0
GONE_S = 1.5 * CHANNEL.lost_after_s
"""At least: of nodes, clouds and gateways nobody waits as long for a sign of life."""
ANSWERS = 10
"""In that time or later."""


@pytest.fixture
def up(short_tmp: Path) -> Iterator[Up]:
    made = Up(short_tmp / "gone")
    made.home.mkdir()
    made.spec.write_text(QUICK)
    give_profiles(made.home, made.spec)
    try:
        yield made
    finally:
        made.clear()


def nodes(home: Path) -> dict[str, tuple[str, int]]:
    """Instance → its state, and how many nodes it has."""
    said = subprocess.run(
        [MEDLEY, "instances", "-o", "json"],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=300,
        check=True,
    )
    return {each["id"]: (each["state"], len(each["nodes"])) for each in json.loads(said.stdout)}


def engines(home: Path) -> set[int]:
    return {p.pid for p in of_home(str(home)) if "agents.stage" in _command(p)}


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.mark.slow
def test_serving_goes_on_without_control_plane_and_database(up: Up) -> None:
    up.start(START_S)
    client = OpenAI(base_url=f"{up.url}/v1", api_key=up.key, max_retries=0, timeout=300)

    def answer() -> str:
        """Of a client that comes back when it is told to: this one asks faster than the plan has promised to answer."""
        what = {"model": "smollm2-135m-instruct", "prompt": "The capital of France is", "max_tokens": 12}
        give_up_s = time.monotonic() + START_S
        while True:
            try:
                chunks = client.completions.create(**what, temperature=0, stream=True)  # type: ignore[call-overload]
                return "".join(chunk.choices[0].text for chunk in chunks)
            except RateLimitError as refused:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(float(refused.response.headers["retry-after"]))

    expected, running, workers = answer(), nodes(up.home), engines(up.home)
    assert {state for state, _ in running.values()} == {"ready"}
    url = up.url
    up.kill_control_plane()
    began_s = time.monotonic()
    for number in range(1, ANSWERS + 1):
        assert answer() == expected
        time.sleep(max(0.0, began_s + GONE_S * number / ANSWERS - time.monotonic()))
    up.start(START_S)
    assert up.url == url, "the gateway is the same"
    assert (nodes(up.home), engines(up.home)) == (running, workers), "and so is every node"
    assert answer() == expected
    assert up.end() == 0, up.said
    assert of_home(str(up.home)) == []
