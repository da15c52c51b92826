"""Placements of a whole family of node sets, as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class FoundPlacements:
    """The templates that were kept, n of them, with their m (stage, configuration) shares in pipeline order."""

    possible: int
    """Node sets with throughput > 0, those whose template was pruned included."""
    rows: NDArray[np.int64]
    """(n,) of the node sets, ascending."""
    units_per_s: NDArray[np.float64]
    """(n,) of the slowest stage."""
    stages: NDArray[np.int8]
    """(n,)"""
    share_template: NDArray[np.int64]
    """(m,) 0 … n - 1, non-decreasing; within a template by stage, then by configuration."""
    share_stage: NDArray[np.int64]
    """(m,) 0 … stages - 1."""
    share_config: NDArray[np.int64]
    """(m,) index of the configuration."""
    share_nodes: NDArray[np.int64]
    """(m,) nodes of it in the stage."""
    share_layers: NDArray[np.int64]
    """(m,) layers of the stage."""
    share_budget: NDArray[np.int64]
    """(m,) index of the stage's latency budget."""
