"""Processes that begin where imports end: each is forked from one that has imported what they import.

They are processes like any other, with their own arguments, environment and streams, and they die of signals. What is
left out is to read and import the same packages for seconds before each of some hundreds, and to load the same machine
code. Who looks for a process by its command line does not find one of these.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import PIPE, TimeoutExpired
from typing import IO

ROOT = Path(__file__).parents[1]


@cache
def _server() -> ForkServerContext:
    """What forks; of a test session there is one, which starts with the first process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.forked_imports"])
    return context


class Forked:
    """`python -m MODULE ARGUMENTS`, as far as tests use a `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[object],
        *,
        stdout: int | IO[bytes] | IO[str] | None = None,
        stderr: IO[bytes] | IO[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`stdout`: `PIPE`, a file, or None for the test's own; `env`: instead of the test's."""
        self.args = [module, *map(str, arguments)]
        self.stdout: IO[str] | None = None
        out = 1 if stdout is None else stdout if isinstance(stdout, int) else stdout.fileno()
        if out == PIPE:
            read, out = os.pipe()
            self.stdout = os.fdopen(read)
        streams = [Connection(os.dup(each), readable=False) for each in (out, 2 if stderr is None else stderr.fileno())]
        if self.stdout is not None:
            os.close(out)
        given = (self.args, dict(os.environ if env is None else env), *streams)
        self._process = _server().Process(target=_run, args=given, daemon=True)
        self._process.start()
        for each in streams:
            each.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, None]:
        """Read what is left of its output, and wait for its end."""
        text = ""
        if self.stdout is not None:
            with self.stdout:
                text = self.stdout.read()
        self.wait()
        return text, None


def _run(args: list[str], environment: dict[str, str], *streams: Connection) -> None:
    """In the forked process."""
    for descriptor, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), descriptor)
        stream.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    multiprocessing.current_process().daemon = False  # it may have children of its own
    sys.argv = list(args)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if args[0] == "medley":
        from control.cli.main import run

        run()
    else:
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
