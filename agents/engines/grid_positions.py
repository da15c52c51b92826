"""Three positions of a prompt's tokens: of text one counter, of images and videos frame, row and column."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

AXES = 3
"""Frame, row, column."""
MOST_SIDE = 1 << 16
"""Frames, rows or columns of a grid, at most: bounds what a request makes an engine compute with."""


@dataclass(frozen=True, slots=True)
class GridSpan:
    """Tokens of a request that stand for one image or video, row by row and frame by frame."""

    first_token: int
    """Its place in the request."""
    frames: int
    rows: int
    columns: int
    frame_step: float = 1.0
    """Positions from a frame to the next: a video's, whose frames are as far apart as their times."""

    def __post_init__(self) -> None:
        sides = (self.frames, self.rows, self.columns)
        if self.first_token < 0 or min(sides) < 1 or max(sides) > MOST_SIDE or not 0 <= self.frame_step <= MOST_SIDE:
            raise ValueError(f"a grid begins at token 0 or later, with sides in [1, {MOST_SIDE}]: got {self}")

    @property
    def tokens(self) -> int:
        return self.frames * self.rows * self.columns

    @property
    def end_token(self) -> int:
        return self.first_token + self.tokens

    @property
    def extent(self) -> int:
        """Positions that it takes: text behind it goes on after the largest of its own."""
        return max(int((self.frames - 1) * self.frame_step) + 1, self.rows, self.columns)


def grids_follow(grids: Sequence[GridSpan]) -> bool:
    """Tell whether each grid begins where the one before has ended, or later."""
    return all(a.end_token <= b.first_token for a, b in pairwise(grids))


def grid_positions(grids: Sequence[GridSpan], first: int, tokens: int) -> NDArray[np.int64]:
    """(tokens, 3) positions of the tokens [first, first + tokens) of a request with these grids, in their order
    (multimodal rotary position embedding, Wang et al. 2024, section 2.1). All follows from the token's place, so a
    chunk may begin amid an image, and tokens behind the prompt are text."""
    at = np.arange(first, first + tokens, dtype=np.int64)
    positions = np.repeat(at[:, None], AXES, axis=1)
    shift = 0
    for grid in grids:
        positions[at >= grid.end_token] += grid.extent - grid.tokens
        inside = (at >= grid.first_token) & (at < grid.end_token)
        if inside.any():
            sides = (grid.frames, grid.rows, grid.columns)
            frame, row, column = np.unravel_index(at[inside] - grid.first_token, sides)
            place = np.stack(((frame * grid.frame_step).astype(np.int64), row, column), axis=1)
            positions[inside] = grid.first_token + shift + place
        shift += grid.extent - grid.tokens
    return positions


def text_position(grids: Sequence[GridSpan], token: int) -> int | None:
    """The one position of a token of text; None where it stands for a part of an image."""
    shift = 0
    for grid in grids:
        if token < grid.first_token:
            break
        if token < grid.end_token:
            return None
        shift += grid.extent - grid.tokens
    return token + shift
