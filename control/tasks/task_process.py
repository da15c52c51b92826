"""A process that runs the code of one file of tasks: asked over a pipe, ended when it is late, started again when it is
gone."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator

import msgspec

from control.tasks.child import end_child, how_it_ended, start_child
from control.tasks.failure import ProcessEndedError, TaskFailedError
from control.tasks.frames import read_frame, write_frame
from control.tasks.task_source import TaskSource
from medley_sdk.messages import Ask, Fault, Limits, Load, Loaded, Recorded, Reply, TaskInfo, Why

LOAD_S = 10.0
"""Longest time until a file is loaded, the start of the process included; and longest wait for calls before."""
CALL_S = 1.0
"""Longest time of one call."""


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
            end_child(child)

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
        self._child = child = start_child("medley_sdk.sandbox", self._hash_seed)
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
            how = how_it_ended(child)
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
