"""Compiler settings of this package's functions, and the array types that they pass around."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Small = NDArray[np.int16]
Bytes = NDArray[np.int8]
Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]

F = TypeVar("F", bound=Callable[..., Any])


@lru_cache(maxsize=1)
def sources_digest() -> str:
    """Hash of every source file of this package."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=16).hexdigest()


def compiled(function: F) -> F:
    """Machine code that other threads run beside (no interpreter lock), kept on disk between runs.

    Numba would reuse kept code until the function's own file changes, although functions of other files are compiled
    into it. Here it is reused until any file of the package changes.
    """
    dispatcher: Any = numba.njit(cache=True, nogil=True)(function)
    dispatcher._cache._cache_file._source_stamp = sources_digest()
    return cast(F, dispatcher)
