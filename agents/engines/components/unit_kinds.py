"""Kinds of units that encoders take: shapes, bounds, and how many rows come of one.

All is known from the shape of a unit, so that who has a queue cuts batches, and who profiles makes units, without the
model."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from agents.engines.components.unit import EncoderUnit

MOST_SIDE = 1 << 12
"""Patches of an image, a side, and tiles of one: bounds what a request makes an engine compute with."""


class UnitKind(Protocol):
    def refusal(self, unit: EncoderUnit) -> str | None:
        """Say what is wrong with the shape of a unit; None: nothing."""

    def rows_in(self, unit: EncoderUnit) -> int:
        """Count the rows that the encoder's layers work on: what bounds a batch."""

    def rows_out(self, unit: EncoderUnit) -> int:
        """Count the rows that come of a unit: tokens that a decoder's prompt has in their place."""

    def example(self, size: int, seed: int) -> EncoderUnit:
        """Make a unit of random values, of the kind's measure `size` (it says which), for measurements."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Sound, (samples,) from -1 to 1, shorter than the encoder's window, which it is padded to with silence."""

    samples_per_s: int
    most: int
    """Samples of the window."""
    frames: int
    """Rows that the window becomes, before and after the layers."""

    def refusal(self, unit: EncoderUnit) -> str | None:
        if unit.values.ndim != 1 or not 1 <= len(unit.values) <= self.most:
            return f"sound has shape (n,) with n in [1, {self.most}]: cut what is longer into windows"
        return None

    def rows_in(self, _unit: EncoderUnit) -> int:
        return self.frames

    def rows_out(self, _unit: EncoderUnit) -> int:
        return self.frames

    def example(self, size: int, seed: int) -> EncoderUnit:
        """`size`: seconds, as far as the window goes."""
        samples = min(size * self.samples_per_s, self.most)
        return EncoderUnit(f"sound {seed}", _noise((samples,), seed) * np.float32(0.1))


@dataclass(frozen=True, slots=True)
class Clips:
    """Sound of any length up to a bound, (samples,) from -1 to 1: the longer, the more rows."""

    samples_per_s: int
    most: int
    """Samples."""
    hop: int
    """Samples of a frame. Two frames become a row of the layers, two of those one that comes out."""

    def refusal(self, unit: EncoderUnit) -> str | None:
        if unit.values.ndim != 1 or not 2 * self.hop < len(unit.values) <= self.most:
            return f"sound has shape (n,) with n in [{2 * self.hop + 1}, {self.most}]"
        return None

    def frames(self, unit: EncoderUnit) -> int:
        return -(-len(unit.values) // self.hop)

    def rows_in(self, unit: EncoderUnit) -> int:
        return (self.frames(unit) + 1) // 2

    def rows_out(self, unit: EncoderUnit) -> int:
        return self.rows_in(unit) // 2

    def example(self, size: int, seed: int) -> EncoderUnit:
        """`size`: seconds, as far as the bound goes."""
        samples = min(size * self.samples_per_s, self.most)
        return EncoderUnit(f"sound {seed}", _noise((samples,), seed) * np.float32(0.1))


@dataclass(frozen=True, slots=True)
class Patches:
    """Images or videos as (frames × rows × columns, values) patches, with their grid. Patches that are merged into one
    row follow each other (`merge` × `merge` of them, row by row)."""

    channels: int
    frames: int
    """Of a patch; a picture that stands still is as many equal ones."""
    patch: int
    """Pixels of a side."""
    merge: int

    @property
    def values(self) -> int:
        """Count the numbers of a patch: channel, frame, row, column."""
        return self.channels * self.frames * self.patch**2

    def refusal(self, unit: EncoderUnit) -> str | None:
        if unit.grid is None:
            return "patches come with a grid of frames, rows and columns"
        frames, rows, columns = unit.grid
        if min(unit.grid) < 1 or max(unit.grid) > MOST_SIDE or rows % self.merge or columns % self.merge:
            return f"sides of a grid are in [1, {MOST_SIDE}], rows and columns multiples of {self.merge}: {unit.grid}"
        if unit.values.shape != (frames * rows * columns, self.values):
            return f"patches of grid {unit.grid} have shape {(frames * rows * columns, self.values)}"
        return None

    def rows_in(self, unit: EncoderUnit) -> int:
        return len(unit.values)

    def rows_out(self, unit: EncoderUnit) -> int:
        return len(unit.values) // self.merge**2

    def example(self, size: int, seed: int) -> EncoderUnit:
        """`size`: rows that come of it, in a grid as square as it can be."""
        rows = max(each for each in range(1, int(size**0.5) + 1) if size % each == 0)
        grid = (1, rows * self.merge, size // rows * self.merge)
        return EncoderUnit(f"image {seed}", _noise((grid[1] * grid[2], self.values), seed), grid)


@dataclass(frozen=True, slots=True)
class Tiles:
    """An image as (tiles, channels, side, side) pixels: pieces of one size, which do not see each other."""

    channels: int
    side: int
    """Pixels."""
    patches: int
    """Rows of a tile in the layers, without the row of its class."""
    rows: int
    """That come of a tile."""

    def refusal(self, unit: EncoderUnit) -> str | None:
        tile = (self.channels, self.side, self.side)
        if unit.values.ndim != 4 or unit.values.shape[1:] != tile or not 1 <= len(unit.values) <= MOST_SIDE:
            return f"tiles have shape (n, {', '.join(map(str, tile))})"
        return None

    def rows_in(self, unit: EncoderUnit) -> int:
        return len(unit.values) * (self.patches + 1)

    def rows_out(self, unit: EncoderUnit) -> int:
        return len(unit.values) * self.rows

    def example(self, size: int, seed: int) -> EncoderUnit:
        """`size`: tiles."""
        return EncoderUnit(f"image {seed}", _noise((size, self.channels, self.side, self.side), seed))


@dataclass(frozen=True, slots=True)
class Pixels:
    """An image as (channels, height, width) pixels, sides multiples of a patch's."""

    channels: int
    patch: int

    def refusal(self, unit: EncoderUnit) -> str | None:
        shape = unit.values.shape
        if len(shape) != 3 or shape[0] != self.channels or any(side % self.patch for side in shape[1:]):
            return f"an image has shape ({self.channels}, height, width), sides multiples of {self.patch}"
        if not 1 <= min(shape[1:]) // self.patch <= max(shape[1:]) // self.patch <= MOST_SIDE:
            return f"an image has [1, {MOST_SIDE}] patches a side"
        return None

    def rows_in(self, unit: EncoderUnit) -> int:
        """One for each patch, and one for the whole."""
        height, width = (int(side) for side in unit.values.shape[1:])
        return (height // self.patch) * (width // self.patch) + 1

    def rows_out(self, unit: EncoderUnit) -> int:
        return self.rows_in(unit)

    def example(self, size: int, seed: int) -> EncoderUnit:
        """`size`: patches a side."""
        return EncoderUnit(f"image {seed}", _noise((self.channels, size * self.patch, size * self.patch), seed))


def _noise(shape: tuple[int, ...], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
