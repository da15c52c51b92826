"""Memory that is freed goes back to the machine."""

import ctypes
import logging

_log = logging.getLogger(__name__)

# As of glibc's malloc.h
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_BLOCK_BYTES = 1 << 20
"""Blocks of this size and more are mapped one by one: more than the socket reads at once, less than a large body."""
_TOP_BYTES = 4 << 20
"""Free memory at the end of the heap that is kept."""
_ARENAS = 2
"""Heaps of threads: what one of many has freed is of no use to others."""


def give_back_freed_memory() -> None:
    """Have glibc return what is freed. By itself it learns from each large block that is freed to take the next from
    the heap, where a small block behind it keeps all of it resident: a few bodies of 8 MB cost hundreds, for ever. With
    another C library nothing is done."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for name, value in ((_MMAP_THRESHOLD, _BLOCK_BYTES), (_TRIM_THRESHOLD, _TOP_BYTES), (_ARENA_MAX, _ARENAS)):
        if not mallopt(name, value):
            _log.warning("glibc does not take %d for malloc's option %d", value, name)
