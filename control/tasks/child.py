"""Processes that run users' code: started with nothing of this one's own, in which there are secrets, and kept from its
memory."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

import medley_sdk

_PR_SET_DUMPABLE = 4
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Signals that operators and systems send. Those of faults in code, and of its bound on processor time, are others."""
END_S = 1.0
"""Time for a process that closed its pipe to say how it ended: one that was killed may take a while on a busy machine,
and is not taken for one whose code ended it."""


def start_child(module: str, hash_seed: int = 0) -> subprocess.Popen[bytes]:
    """Start a module that is asked over its standard input, whose pipe does not block. `hash_seed`: of Python's hashes,
    by which sets are ordered."""
    _hide_this_process()
    found = (Path(package.__file__ or "").parents[1] for package in (medley_sdk, msgspec))
    environment = {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, found))),
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    child = subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    assert child.stdin is not None  # noqa: S101 - it is a pipe
    os.set_blocking(child.stdin.fileno(), False)
    return child


def _hide_this_process() -> None:
    """Keep processes of the same user, other than root's, from the memory, environment and open files of this one: the
    kernel gives them out of /proc and to debuggers otherwise. Programs that it starts are as any."""
    with contextlib.suppress(OSError, AttributeError):  # no Linux
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def kill_child(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # and what it has started: that would keep the pipes open


def end_child(child: subprocess.Popen[bytes]) -> None:
    kill_child(child)
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.wait()


def how_it_ended(child: subprocess.Popen[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = child.wait(END_S)
        return f"signal {-code}" if code < 0 else f"exit code {code}"
    return "it closed its pipe"


def was_killed(child: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process that has ended was killed, rather than ended by its code."""
    code = child.poll()
    return code is not None and -code in _FROM_OUTSIDE
