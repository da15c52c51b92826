"""A process that runs the code of one file of tasks: asked over a pipe, ended when it is late, started again when it is
gone."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import medley_sdk
from control.tasks.failure import ProcessEndedError, TaskFailedError
from control.tasks.frames import read_frame, write_frame
from control.tasks.task_source import TaskSource
from medley_sdk.messages import Ask, Fault, Limits, Load, Loaded, Recorded, Reply, TaskInfo, Why

LOAD_S = 10.0
"""Longest time until a file is loaded, the start of the process included; and longest wait for calls before."""
CALL_S = 1.0
"""Longest time of one call."""
END_S = 0.2
"""Time for a process that closed its pipe to say how it ended."""


class TaskProcess:
    """Not before it is asked something is the process started. Threads may ask at the same time: calls go one by one.

    Raises TaskFailedError, whatever is asked, when the code does not do it in time and within its limits.
    """

    def __init__(
        self, source: TaskSource, *, limits: Limits | None = None, call_s: float = CALL_S, hash_seed: int = 0
    ) -> None:
        """`hash_seed`: of Python's hashes, by which sets are ordered."""
        self.source, self._limits, self._call_s, self._hash_seed = source, limits or Limits(), call_s, hash_seed
        self._child: subprocess.Popen[bytes] | None = None
        self._tasks: tuple[TaskInfo, ...] = ()
        self._turn = threading.Lock()
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Reply)

    def __enter__(self) -> "TaskProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the process; None: none runs."""
        return None if self._child is None else self._child.pid

    def tasks(self) -> tuple[TaskInfo, ...]:
        """List the workflows of the file."""
        with self._own_turn():
            self._running()
            return self._tasks

    def ask(self, ask: Ask) -> Recorded:
        with self._own_turn():
            try:
                found = self._answered(self._running(), ask, self._call_s)
            except ProcessEndedError:  # killed from outside, perhaps: code that ends it does so again
                found = self._answered(self._running(), ask, self._call_s)
            assert isinstance(found, Recorded)  # noqa: S101 - everything but Load is answered with records
            return found

    def close(self) -> None:
        """End the process. It may be asked again: another is started."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and what it has started: that would keep the pipes open
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()
            child.wait()

    @contextlib.contextmanager
    def _own_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=LOAD_S):
            raise TaskFailedError(f"{self.source.file}: is busy with other requests for more than {LOAD_S:g} s")
        try:
            yield
        finally:
            self._turn.release()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        self._child = child = _start(self._hash_seed)
        loaded = self._answered(child, Load(self.source.file, self.source.text, self._limits), LOAD_S)
        assert isinstance(loaded, Loaded)  # noqa: S101 - that is what Load is answered with
        self._tasks = loaded.tasks
        return child

    def _answered(self, child: subprocess.Popen[bytes], ask: Ask, most_s: float) -> Loaded | Recorded:
        """The reply to `ask`. Whatever goes wrong but what the code raised ends the process."""
        file = self.source.file
        try:
            deadline_s = time.monotonic() + most_s
            write_frame(child.stdin, self._encoder.encode(ask), deadline_s)
            reply: Reply = self._decoder.decode(read_frame(child.stdout, deadline_s))
        except TimeoutError:
            self.close()
            raise TaskFailedError(f"{file}: takes more than {most_s:g} s; has it no end?") from None
        except (OSError, EOFError):
            how = _how_it_ended(child)
            self.close()
            raise ProcessEndedError(f"{file}: ended its process ({how}); the code of a task must return") from None
        except ValueError as error:  # also of msgspec: the code has written into the pipe
            self.close()
            raise TaskFailedError(f"{file}: {error}") from None
        except BaseException:  # such as an interrupt: the reply to this call would be taken for the next one's
            self.close()
            raise
        if isinstance(reply, Fault):
            if isinstance(ask, Load) or reply.why is Why.MEMORY:  # a fresh one is better than one that has just enough
                self.close()
            raise TaskFailedError(reply.reason)
        return reply


def _start(hash_seed: int) -> subprocess.Popen[bytes]:
    found = (Path(package.__file__ or "").parents[1] for package in (medley_sdk, msgspec))
    environment = {  # nothing of this process's own, in which there are secrets
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(map(str, found))),
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    child = subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "medley_sdk.sandbox"],
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


def _how_it_ended(child: subprocess.Popen[bytes]) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = child.wait(END_S)
        return f"signal {-code}" if code < 0 else f"exit code {code}"
    return "it closed its pipe"
