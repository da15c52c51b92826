"""Machine code of functions that Python calls, kept on disk from one process to the next."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def machine_code(function: F, sources: Iterable[Path], *, nogil: bool) -> F:
    """Compile with the first call, or load what was compiled of the same `sources`: the function's file and those of
    what it calls (numba alone looks at the first). Where no folder can be written, nothing is kept.

    `nogil`: other threads may run Python meanwhile; to have it back then may take longer than a short call."""
    try:
        dispatcher: Any = numba.njit(cache=True, nogil=nogil)(function)
    except RuntimeError:  # there is no place for a cache
        return cast(F, numba.njit(nogil=nogil)(function))
    digest = hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=16)
    dispatcher._cache._cache_file._source_stamp = digest.hexdigest()
    return cast(F, dispatcher)
