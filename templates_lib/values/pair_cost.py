"""Measurements of two nodes of one kind that send each other what stages and hand-offs do."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class HopTime:
    """Rows of activations from a node to the next, one step behind the other."""

    rows: int
    seconds: float
    """Mean of one step's rows."""


@dataclass(frozen=True, slots=True)
class PairCost:
    hops: tuple[HopTime, ...]
    """By rows, the fewest first."""
    way: str
    """What carried the rows: `NCCL` from card to card, or `gloo` by way of CPU memory."""
    kv_bytes_per_s: float
    """Bytes/s of KV caches over one link, out of and into CPU memory."""

    def hop_seconds(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds of a hop of so many rows: between measured ones on a line, beyond the most at the rate of those."""
        rows = np.asarray(rows, dtype=np.float64)
        known, seconds = [hop.rows for hop in self.hops], [hop.seconds for hop in self.hops]
        return np.interp(rows, known, seconds) * np.maximum(1.0, rows / known[-1])
