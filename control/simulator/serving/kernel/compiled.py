"""How the functions of this package are compiled."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.experimental import structref

from policies import admission, lanes, late_refusal, later_legs, queue_parts, rows, slack
from policies.machine_code import machine_code

F = TypeVar("F", bound=Callable[..., Any])


def by_reference(fields: tuple[str, ...]) -> Any:
    """A maker, for compiled functions, of a value with these fields that goes from function to function as one pointer;
    a tuple of many arrays would be copied with every call, and take long to compile."""

    @structref.register
    class Type(numba.types.StructRef): ...

    class Proxy(structref.StructRefProxy): ...

    structref.define_proxy(Proxy, Type, list(fields))
    return Proxy


@lru_cache(maxsize=1)
def _sources() -> tuple[Path, ...]:
    """Every source file that is compiled together."""
    serving = Path(__file__).parents[1]
    shared = (admission, lanes, late_refusal, later_legs, queue_parts, rows, slack)
    return (*sorted(serving.glob("*/*.py")), *(Path(str(module.__file__)) for module in shared))


def compiled(function: F) -> F:
    """Machine code for other compiled functions alone: what Python would need to call it takes longest to compile."""
    options: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, numba.njit(**options)(function))


def entry(function: F) -> F:
    """Machine code that Python calls, kept on disk until any file of the package changes."""
    return machine_code(function, _sources(), nogil=True)
