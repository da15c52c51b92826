"""How the functions of this package are compiled, and the array types that they pass around."""

from collections.abc import Callable
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


def compiled(function: F) -> F:
    """Machine code that other threads run beside (no interpreter lock), kept on disk between runs."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
