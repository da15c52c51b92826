"""A linear program under construction: named rows, variables that are always there, and maps for generated columns."""

import math
from dataclasses import dataclass
from typing import SupportsInt

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Floats, Ints, expand

INFINITY = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class RowMap:
    """A sparse matrix (keys, rows): what one unit of a key adds to every row."""

    start: Ints
    row: Ints
    coefficient: Floats

    def dot(self, row_values: Floats) -> Floats:
        """(keys,) Σ over rows of coefficient · value."""
        owner = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        weights = self.coefficient * row_values[self.row]
        return np.bincount(owner, weights=weights, minlength=len(self.start) - 1).astype(np.float64)

    def entries(self, key: Ints, scale: Floats) -> tuple[Ints, Ints, Floats]:
        """(position in `key`, row, coefficient · scale) of every nonzero."""
        owner, at = expand(self.start[key], self.start[key + 1])
        return owner, self.row[at], self.coefficient[at] * scale[owner]


class RowMapBuilder:
    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._entries: list[tuple[int, int, float]] = []

    def add(self, key: SupportsInt, row: int, coefficient: float) -> None:
        self._entries.append((int(key), row, float(coefficient)))

    def build(self) -> RowMap:
        entries = sorted(self._entries)
        key = np.array([e[0] for e in entries], dtype=np.int64)
        return RowMap(
            np.searchsorted(key, np.arange(self._keys + 1)),
            np.array([e[1] for e in entries], dtype=np.int64),
            np.array([e[2] for e in entries], dtype=np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SparseMatrix:
    """Columns in compressed form: column i has entries [start_i, start_{i+1})."""

    start: NDArray[np.int32]
    row: NDArray[np.int32]
    value: Floats

    @property
    def columns(self) -> int:
        return len(self.start) - 1

    @property
    def owner(self) -> Ints:
        """(entries,) the column of each entry."""
        return np.repeat(np.arange(self.columns), np.diff(self.start))

    def dot(self, row_values: Floats) -> Floats:
        """(columns,) Σ over a column's entries of value · row value."""
        weights = self.value * row_values[self.row]
        return np.bincount(self.owner, weights=weights, minlength=self.columns).astype(np.float64)


def compress(columns: int, rows: int, owner: Ints, row: Ints, value: Floats) -> SparseMatrix:
    """Entries as a matrix, with those of one place added up and zeros dropped."""
    key, inverse = np.unique(owner * rows + row, return_inverse=True)
    total = np.bincount(inverse, weights=value, minlength=len(key))
    key, total = key[total != 0], total[total != 0]
    start = np.searchsorted(key, np.arange(columns + 1) * rows)
    return SparseMatrix(start.astype(np.int32), (key % max(rows, 1)).astype(np.int32), total)


@dataclass(frozen=True, slots=True, eq=False)
class Variables:
    cost: Floats
    lower: Floats
    upper: Floats
    integer: NDArray[np.bool_]
    matrix: SparseMatrix

    def __len__(self) -> int:
        return len(self.cost)


class ProgramBuilder:
    """Collects rows and variables; indices are given out in order."""

    def __init__(self) -> None:
        self.row_names: list[str] = []
        self._row_bounds: list[tuple[float, float]] = []
        self._variables: list[tuple[float, float, float, bool]] = []
        self._entries: list[tuple[int, int, float]] = []

    def row(self, name: str, lower: float, upper: float) -> int:
        self.row_names.append(name)
        self._row_bounds.append((lower, upper))
        return len(self.row_names) - 1

    def variable(self, cost: float = 0.0, upper: float = INFINITY, *, integer: bool = False) -> int:
        self._variables.append((cost, 0.0, upper, integer))
        return len(self._variables) - 1

    def put(self, row: int, variable: int, coefficient: float) -> None:
        self._entries.append((variable, row, coefficient))

    def balance(self, name: str, left: list[int], right: list[int]) -> int:
        """A row in which two sums of variables are equal."""
        row = self.row(name, 0.0, 0.0)
        for sign, side in ((1.0, left), (-1.0, right)):
            for variable in side:
                self.put(row, variable, sign)
        return row

    def row_bounds(self) -> tuple[Floats, Floats]:
        bounds = np.array(self._row_bounds, dtype=np.float64).reshape(-1, 2)
        return bounds[:, 0].copy(), bounds[:, 1].copy()

    def variables(self) -> Variables:
        table = np.array(self._variables, dtype=np.float64).reshape(-1, 4)
        entries = np.array(self._entries, dtype=np.float64).reshape(-1, 3)
        owner, row = entries[:, 0].astype(np.int64), entries[:, 1].astype(np.int64)
        matrix = compress(len(table), len(self.row_names), owner, row, entries[:, 2])
        return Variables(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy(), table[:, 3] > 0, matrix)
