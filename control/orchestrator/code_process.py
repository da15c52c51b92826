"""A process of users' code, and the messages that go over its pipes."""

import subprocess
import time
from typing import Any

import msgspec
import psutil

from control.orchestrator.failures import RunBrokeError, RunnerLostError
from control.tasks.child import end_child, how_it_ended, kill_child, start_child, was_killed
from control.tasks.frames import read_frame, write_frame
from medley_sdk.flows.messages import MOST_FRAME_BYTES, AppLoaded, LoadApp
from medley_sdk.messages import Fault

RUNNER = "medley_sdk.flows.runner"
WORKER = "medley_sdk.flows.worker"
_MIB = 1 << 20


class CodeProcess:
    """Not thread-safe, but for `end`. Raises RunnerLostError where the process is gone, RunBrokeError where it is late
    or writes something else."""

    def __init__(self, module: str, reads: Any) -> None:
        """`reads`: types of the messages that come from it."""
        self._child: subprocess.Popen[bytes] = start_child(module)
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(reads)

    @property
    def pid(self) -> int:
        return self._child.pid

    def resident_mib(self) -> float:
        """Return what it takes of the machine's memory, as the system counts it; 0 where it is gone."""
        try:
            return psutil.Process(self._child.pid).memory_info().rss / _MIB
        except psutil.Error:
            return 0.0

    def load(self, ask: LoadApp, most_s: float, *, needs_isolation: bool = False) -> AppLoaded:
        """Have it load its code. Raises RunBrokeError, with what is wrong, also where that fails, and where the network
        cannot be kept from it."""
        loaded = self.asked(ask, most_s)
        if isinstance(loaded, Fault):
            raise RunBrokeError(loaded.reason)
        if not isinstance(loaded, AppLoaded):
            raise RunBrokeError(f"{ask.file}: its process says {type(loaded).__name__} where it loads")
        if needs_isolation and not loaded.isolated and not ask.network:
            raise RunBrokeError(
                "this system cannot keep the network from code of users; `--isolation process` runs it so"
            )
        return loaded

    def asked(self, message: Any, most_s: float) -> Any:
        self.write(message, most_s)
        return self.read(most_s)

    def write(self, message: Any, most_s: float) -> None:
        try:
            data = self._encoder.encode(message)
            write_frame(self._child.stdin, data, time.monotonic() + most_s, MOST_FRAME_BYTES)
        except (OSError, ValueError) as error:
            raise self._lost(error, most_s) from None

    def read(self, most_s: float) -> Any:
        try:
            return self._decoder.decode(read_frame(self._child.stdout, time.monotonic() + most_s, MOST_FRAME_BYTES))
        except (OSError, EOFError, ValueError) as error:
            raise self._lost(error, most_s) from None

    def kill(self) -> None:
        """End it, and what it has started, from another thread: whoever reads its pipes finds them at their end, and
        closes them (`end`)."""
        kill_child(self._child)

    def end(self) -> None:
        end_child(self._child)

    def _lost(self, error: Exception, most_s: float) -> Exception:
        if isinstance(error, TimeoutError):
            return RunBrokeError(f"its code takes more than {most_s:g} s; has it no end? Compute in a service")
        if isinstance(error, OSError | EOFError) or self._child.stdin is None or self._child.stdin.closed:
            how = f"its process ended ({how_it_ended(self._child)})"
            return RunnerLostError(how, was_killed=was_killed(self._child))
        return RunBrokeError(f"its process wrote what is no message ({error})")
