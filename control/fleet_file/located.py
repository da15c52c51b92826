"""Errors of what a spec file refers to, told at the line that refers to it."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from control.fleet_file.document import Position
from control.fleet_file.problem import SpecError

P = ParamSpec("P")
T = TypeVar("T")


def located(at: Position, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The answer of `read`, whose ValueError or LookupError becomes a problem of the value at `at`."""
    try:
        return read(*args, **kwargs)
    except SpecError as error:
        raise SpecError([at.problem(str(p)) for p in error.problems]) from None
    except (ValueError, LookupError) as error:
        raise SpecError([at.problem(str(error))]) from None
