"""T̂: the most work per second that one node sustains, for every role, latency budget, configuration and layer count."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class StageRole(IntEnum):
    """Ends of the model that a stage holds besides its layers. `ONLY` is the single stage of a one-stage placement:
    both ends, and no hop."""

    FIRST = 0
    MIDDLE = 1
    LAST = 2
    ONLY = 3


@dataclass(frozen=True, slots=True, eq=False)
class ThroughputTable:
    """T̂_j(c | budget) of one work class (Coral, section 4.2), with the choice behind every cell.

    Arrays have shape (4 roles, B budgets, C configs, L layers); cell [r, b, c, j - 1] is for j layers. Non-increasing
    in j, non-decreasing in the budget, and MIDDLE ≥ FIRST, LAST for equal (b, c, j). 0: the budget, the memory or the
    network does not allow it. For an even split, the budget of index S - 1 is SLO / S.
    """

    work_class: str
    configs: tuple[str, ...]
    budgets_ms: tuple[float, ...]
    units_per_s: NDArray[np.float64]
    tp: NDArray[np.int16]
    dp: NDArray[np.int16]
    pp: NDArray[np.int16]
    ep: NDArray[np.int16]
    batch_cap: NDArray[np.int32]
    """Requests that get a token in one step of the node (0 in the prompt phase)."""
    chunk_tokens: NDArray[np.int32]
    """Prompt tokens in one step of the node (0 in the answer phase)."""
    kv_blocks: NDArray[np.int32]
    """Blocks of 16 tokens of all held layers that the node has room for, over its dp replicas together."""
