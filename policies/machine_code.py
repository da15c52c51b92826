"""Machine code of functions that Python calls, kept on disk from one process to the next."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def machine_code(function: F, sources: Iterable[Path]) -> F:
    """Compile with the first call, or load what was compiled of the same `sources`: the function's file and those of
    what it calls (numba alone looks at the first). Where no folder can be written, nothing is kept."""
    try:
        dispatcher: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no place for a cache
        return cast(F, numba.njit(nogil=True)(function))
    digest = hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=16)
    dispatcher._cache._cache_file._source_stamp = digest.hexdigest()
    return cast(F, dispatcher)
