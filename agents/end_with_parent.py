"""Has the system end a process with the one that started it, however that ends (Linux)."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """For the process that calls: it is killed when its parent's thread that started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
