"""Memory that a process no longer uses."""

import contextlib
import ctypes
import gc


def give_back_memory() -> None:
    """Give what nothing refers to any more back to the system, cycles of objects included. What the allocator keeps for
    later goes back too, where it can be told to (glibc)."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
