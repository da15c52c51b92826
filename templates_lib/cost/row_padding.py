"""Rows that a product on a processor really has: some are added, so that few numbers of rows occur.

oneDNN keeps code and buffers for every number of rows that it has met, a MiB or more each; of these there are few. The
torch engine pads by this table, and the measured cost model charges by it. Wide products in steps of 64 rows were a
tenth dearer than the rows themselves; in steps of 32 they are a twentieth, for 30 MiB more.
"""

import numpy as np

from templates_lib.ports.cost_model import Floats

MOST_ROWS = 512
"""Most rows of one product; wider ones are cut."""
_QUANTA = ((16, 1), (64, 8), (128, 16))
"""(rows up to, a multiple of)"""
_WIDEST_QUANTUM = 32


def padded(rows: int) -> int:
    """Return the rows that a product of 0 ≤ `rows` ≤ MOST_ROWS is computed with."""
    quantum = next((quantum for most, quantum in _QUANTA if rows <= most), _WIDEST_QUANTUM)
    return -(-rows // quantum) * quantum


def padded_rows(rows: Floats) -> Floats:
    """The same of as many products as the rows need, shaped as `rows`; whole numbers, non-decreasing in `rows`."""
    over = np.mod(rows, MOST_ROWS)
    quantum = np.select([over <= most for most, _ in _QUANTA], [quantum for _, quantum in _QUANTA], _WIDEST_QUANTUM)
    return np.asarray(rows - over + np.ceil(over / quantum) * quantum, dtype=np.float64)
