"""Other processes, in tests: run code there, wait for what it says, see whether it lives."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[3]
PATIENCE_S = 120


def start(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A Python that runs `code` with `arguments` and speaks through pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end_input(process: subprocess.Popen[str]) -> None:
    """End its input and wait for a good end."""
    process.communicate("", timeout=PATIENCE_S)
    assert process.returncode == 0


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)
