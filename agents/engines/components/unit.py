"""What an encoder works on: one image, set of tiles or piece of sound, as numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Grid = tuple[int, int, int]
"""Frames, rows and columns of patches."""


@dataclass(frozen=True, slots=True, eq=False)
class EncoderUnit:
    """One of them, prepared as `EncoderFacts.takes` of its encoder says."""

    id: str
    values: NDArray[np.float32]
    grid: Grid | None = None
    """Of `Patches`; None: others."""
