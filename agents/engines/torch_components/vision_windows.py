"""Windows of Qwen2.5-VL's vision encoder: which patches see each other (Bai et al. 2025, section 2.1.1)."""

import numpy as np
from numpy.typing import NDArray

from agents.engines.components.unit import Grid


def window_order(grid: Grid, merge: int, window: int) -> tuple[NDArray[np.int64], list[int]]:
    """The order of merged rows that puts those of a window behind each other, and how many *patches* each window has.

    `window`: merged rows a side. Windows at the right and lower edge are smaller; frames have windows of their own.
    """
    frames, rows, columns = grid[0], grid[1] // merge, grid[2] // merge
    places = np.arange(frames * rows * columns, dtype=np.int64).reshape(frames, rows, columns)
    parts = [
        places[frame, top : top + window, left : left + window].reshape(-1)
        for frame in range(frames)
        for top in range(0, rows, window)
        for left in range(0, columns, window)
    ]
    return np.concatenate(parts), [len(part) * merge**2 for part in parts]


def patch_places(grid: Grid, merge: int) -> NDArray[np.int64]:
    """(patches, 2): row and column of each patch of a grid, in the order in which patches come: the ones that are
    merged follow each other."""
    frames, rows, columns = grid
    shape = (rows // merge, merge, columns // merge, merge)
    row, column = (
        each.reshape(shape).swapaxes(1, 2).reshape(-1) for each in np.indices((rows, columns), dtype=np.int64)
    )
    return np.tile(np.stack((row, column), axis=1), (frames, 1))
