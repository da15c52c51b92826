"""T̂ made monotone, each improved cell taking over the choice that proves it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.throughput_table import StageRole

Cells = dict[str, NDArray[np.float64]]
"""`units_per_s` and the choice behind it, each (4, B ascending, C, L)."""
Index = tuple[Any, ...]


def make_monotone(cells: Cells, *, in_groups: bool) -> Cells:
    """Non-increasing in layers, non-decreasing in the budget, MIDDLE ≥ FIRST and LAST.

    What a node sustains in a shorter budget, with more layers or with an end of the model beside them, it sustains
    with less to do: the better choice is taken over. Only where that is impossible (more pipeline parts than layers,
    or `in_groups`: a step that is a pipeline's group is too small for a longer budget) the larger cell is lowered to
    the smaller: a node may always do less.
    """
    cells = {name: values.copy() for name, values in cells.items()}
    first = StageRole.ONLY if in_groups else StageRole.FIRST
    for b in range(1, cells["units_per_s"].shape[1]):
        _take_over(cells, np.s_[first:, b], np.s_[first:, b - 1])
    for role in (StageRole.FIRST, StageRole.LAST):
        _take_over(cells, (StageRole.MIDDLE,), (role,))
    for j in range(cells["units_per_s"].shape[3] - 2, -1, -1):
        _take_over(cells, np.s_[..., j], np.s_[..., j + 1], most_parts=j + 1)
    units = np.minimum.accumulate(cells["units_per_s"], axis=3)
    units = np.minimum.accumulate(units[:, ::-1], axis=1)[:, ::-1]
    for role in (StageRole.FIRST, StageRole.LAST):
        units[role] = np.minimum(units[role], units[StageRole.MIDDLE])
    cells["units_per_s"] = units
    return {name: np.where(units > 0, values, 0.0) for name, values in cells.items()}


def _take_over(cells: Cells, to: Index, source: Index, most_parts: int | None = None) -> None:
    better = cells["units_per_s"][source] > cells["units_per_s"][to]
    if most_parts is not None:
        better &= cells["pp"][source] <= most_parts
    for values in cells.values():
        values[to] = np.where(better, values[source], values[to])
