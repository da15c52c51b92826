"""The processes that vLLM computes in, where they are not this one: whether they live, and why they do not."""

import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any

from agents.engines.errors import OutOfMemoryError, RankLostError
from agents.messages.to_hub import OUT_OF_MEMORY

FAULTS = "MEDLEY_VLLM_FAULTS"
"""Names, in the environment of workers that start, the folder where they write why they do not."""
_ENDING_S = 1.0
"""A worker that fails takes others with it; within this, the one that was first has ended."""
_LOOK_S = 0.02
_NO_MEMORY = (OUT_OF_MEMORY, "can't allocate memory", "cannot allocate memory", "cuda_error_out_of_memory")
"""What allocators write, in lower case, in errors that come as text from another process."""


class Workers:
    def __init__(self, executor: Any) -> None:
        """`executor`: vLLM's. One that computes in this process has no workers."""
        self._processes: tuple[BaseProcess, ...] = tuple(one.proc for one in getattr(executor, "workers", None) or ())

    def watch(self, lost: Callable[[Exception], None]) -> None:
        """Have `lost` called, on a thread, once one of them ends."""
        if self._processes:
            threading.Thread(target=lambda: lost(self._await_end()), name="workers", daemon=True).start()

    def cause(self, error: Exception) -> Exception:
        """Return what an error of the engine comes from: a worker that ended, or memory that ran out."""
        if isinstance(error, OutOfMemoryError) or not self._processes:
            return told_memory(error)
        has_ended = wait([process.sentinel for process in self._processes], _ENDING_S)
        return self._end() if has_ended else told_memory(error)

    def _await_end(self) -> Exception:
        wait([process.sentinel for process in self._processes])
        return self._end()

    def _end(self) -> Exception:
        """Return why one has ended, whose status vLLM's own watch may be taking at this moment."""
        last = time.monotonic() + _ENDING_S
        while (ended := self._ended()) is None and time.monotonic() < last:
            time.sleep(_LOOK_S)
        return ended or RankLostError("a worker of vLLM ended")

    def _ended(self) -> Exception | None:
        """Return why the first of those ended that did so by a signal, or else any of them; None: all live."""
        ended = [(number, process.exitcode) for number, process in enumerate(self._processes) if not process.is_alive()]
        ended.sort(key=lambda one: (one[1] is None or one[1] >= 0, one[0]))
        for number, code in ended:
            if code is None or code >= 0:
                return RankLostError(f"worker {number} of vLLM ended with status {code}: its log says why")
            hint = f": {OUT_OF_MEMORY}?" if -code == SIGKILL else ""
            return RankLostError(f"worker {number} of vLLM was ended by {Signals(-code).name}{hint}")
        return None


def told_memory(error: Exception) -> Exception:
    """Return an error as `OutOfMemoryError` where that is what it says."""
    text = str(error)
    is_memory = any(words in text.lower() for words in _NO_MEMORY)
    return OutOfMemoryError(text) if is_memory and not isinstance(error, MemoryError) else error


def fault_in(folder: Path) -> str:
    """Return what the first worker that did not start has written; empty where none has."""
    written = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return written[0].read_text() if written else ""
