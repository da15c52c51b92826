"""Faults of one process that stay where they are: a clock that jumps, and a stage that is killed again and again."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.chaos.up_process import MEDLEY, Up
from tests.chaos.victims import of_home
from tests.control.profiles.given import give_profiles
from tests.e2e.conftest import environment
from tests.e2e.test_up_command import QUICK

START_S = 600.0
HOUR_S = 3600
DEADLINE_S = 120.0
"""Of a request; longer than a gateway waits for an instance."""
KILLS = 3
ASKED = {"model": "smollm2-135m-instruct", "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def jumps(short_tmp: Path) -> Path:
    """File that says whose clock is off (`tests/jumping_clock`)."""
    folder = short_tmp / "clock"
    folder.mkdir()
    shutil.copy(Path(__file__).parents[1] / "jumping_clock" / "sitecustomize.py", folder)
    return folder / "jumps"


@pytest.fixture(scope="module")
def up(short_tmp: Path, jumps: Path) -> Iterator[Up]:
    made = Up(short_tmp / "faults", {"PYTHONPATH": f"{jumps.parent}:{os.environ.get('PYTHONPATH', '')}"})
    made.home.mkdir()
    made.spec.write_text(QUICK)
    give_profiles(made.home, made.spec)
    try:
        yield made.start(START_S)
    finally:
        made.clear()


def told(up: Up, *command: str) -> Any:
    """What a command prints on a machine whose clock is right."""
    done = subprocess.run(
        [MEDLEY, *command, "-o", "json"],
        capture_output=True,
        text=True,
        env=environment(up.home),
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


def answered(up: Up) -> httpx.Response:
    """The answer to one request, from a client that comes back when it is told to."""
    give_up_s = time.monotonic() + START_S
    while True:
        got = httpx.post(
            f"{up.url}/v1/completions", json=ASKED, headers={"authorization": f"Bearer {up.key}"}, timeout=DEADLINE_S
        )
        if got.status_code not in (429, 503) or time.monotonic() > give_up_s:
            return got
        time.sleep(float(got.headers["retry-after"]))


def stages(up: Up) -> list[psutil.Process]:
    """Engines of the one stage that is killed, wherever it runs: of the first node."""
    found = [process for process in of_home(str(up.home)) if "agents.stage" in process.cmdline()]
    return sorted(found, key=lambda process: process.environ().get("MEDLEY_NODE", ""))


def made_token(up: Up, name: str) -> str:
    """A key of half an hour, once the gateway lets it in: the control plane has published it by its own clock."""
    key = str(told(up, "token", "create", name, "--role", "client", "--days", "0.02")["token"])
    give_up_s = time.monotonic() + START_S
    while not lets_in(up, key) and time.monotonic() < give_up_s:
        time.sleep(0.05)
    assert lets_in(up, key), f"key {name} is not let in"
    return key


def lets_in(up: Up, key: str) -> bool:
    return httpx.get(f"{up.url}/v1/models", headers={"authorization": f"Bearer {key}"}, timeout=DEADLINE_S).is_success


@pytest.mark.slow
def test_a_clock_that_jumps_by_an_hour_moves_nothing(up: Up, jumps: Path) -> None:
    before = made_token(up, "before")
    running = {each["id"]: each["state"] for each in told(up, "instances")}
    engines = {process.pid for process in stages(up)}
    assert set(running.values()) == {"ready"}
    for number, lines in enumerate(
        (
            [f"{HOUR_S} medley up"],
            [f"{HOUR_S} medley up", f"{HOUR_S} agents."],
            [f"{-HOUR_S} medley up", f"{HOUR_S} control.gateway"],
        )
    ):
        jumps.write_text("\n".join(lines))
        made_token(up, f"token-{number}")
        assert lets_in(up, before), f"a token of half an hour has ended: {lines}"
        assert answered(up).status_code == 200
    jumps.unlink()
    assert {each["id"]: each["state"] for each in told(up, "instances")} == running
    assert {process.pid for process in stages(up)} == engines
    spent = told(up, "cost")
    assert spent["usd"] < 0.5 * spent["usd_per_hour"], "minutes cost no hour"


@pytest.mark.slow
def test_a_stage_that_is_killed_again_and_again_leaves_every_request_a_clear_answer(up: Up) -> None:
    for _ in range(KILLS):
        assert answered(up).status_code == 200  # it serves again
        victims = stages(up)
        victims[0].kill()
        got = httpx.post(
            f"{up.url}/v1/completions", json=ASKED, headers={"authorization": f"Bearer {up.key}"}, timeout=DEADLINE_S
        )
        assert got.status_code in (200, 503), got.text
        if got.status_code == 503:
            assert 1 <= int(got.headers["retry-after"]) <= DEADLINE_S
            assert got.json()["error"]["code"]
    assert answered(up).status_code == 200
    assert up.end() == 0, up.said
    assert of_home(str(up.home)) == []
