"""Arrays of records: a class with annotated fields says what a row is, numpy and numba lay it out."""

from typing import Annotated, Any, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Small = Annotated[int, np.int32]
"""A number that is kept for each request, in half the memory."""
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_DTYPES = {int: np.int64, float: np.float64, bool: np.bool_}


class Rows(Protocol[R_co]):
    """An array of records; `rows[i]` is a reference to the record, not a copy."""

    def __getitem__(self, at: int, /) -> R_co: ...

    def __len__(self) -> int: ...


def dtype_of(record: type[Any]) -> np.dtype[np.void]:
    """Layout of a class whose annotations are `int`, `float`, `bool` or `Small`."""
    hints = get_type_hints(record, include_extras=True)
    fields = [(name, get_args(of)[1] if get_origin(of) is Annotated else _DTYPES[of]) for name, of in hints.items()]
    return np.dtype(fields, align=True)


def rows_of(record: type[R], count: int, **values: Any) -> Rows[R]:
    """(count,) records: of zeros, but for the fields that `values` gives, each a scalar or an array (count,)."""
    rows = np.zeros(count, dtype_of(record)).view(np.recarray)
    for name, value in values.items():
        rows[name] = value
    return cast(Rows[R], rows)


def table_of(record: type[R], rows: list[tuple[Any, ...]]) -> Rows[R]:
    """The records of tuples in the order of the fields."""
    return cast(Rows[R], np.array(rows, dtype_of(record)).view(np.recarray))


def column(rows: Rows[Any], name: str) -> NDArray[Any]:
    """(rows,) one field of all of them: a view, which may be written."""
    return np.asarray(cast(Any, rows)[name])


def copied(old: Rows[R], new: Rows[R]) -> Rows[R]:
    """`new`, that begins with all of `old`."""
    cast(Any, new)[: len(old)] = old
    return new
