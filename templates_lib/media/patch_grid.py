"""Qwen-VL: the picture at about its own size, in whole patches of which squares become one token."""

import math
from dataclasses import dataclass

from templates_lib.media.image_layout import ImageLayout, ImageSizeError, check_size

MOST_ASPECT = 200
"""Times that the longer side may be the shorter (`smart_resize` of Qwen2-VL's processor)."""


@dataclass(frozen=True, slots=True)
class PatchGrid:
    patch: int
    """Pixels of a side."""
    merge: int
    """Patches along a side of the square that becomes one token."""
    fewest_pixels: int
    most_pixels: int

    def layout(self, width: int, height: int) -> ImageLayout:
        """See `ImageRule`. Sides are rounded to whole squares, and scaled where pixels are too few or too many."""
        check_size(width, height)
        if max(width, height) > MOST_ASPECT * min(width, height):
            why = f"the longer side may be {MOST_ASPECT} times the shorter"
            raise ImageSizeError(f"a picture of {width} by {height} pixels is too narrow: {why}")
        side = self.patch * self.merge
        high, wide = round(height / side) * side, round(width / side) * side
        if high * wide > self.most_pixels:
            shrunk = math.sqrt(height * width / self.most_pixels)
            high = max(side, math.floor(height / shrunk / side) * side)
            wide = max(side, math.floor(width / shrunk / side) * side)
        elif high * wide < self.fewest_pixels:
            grown = math.sqrt(self.fewest_pixels / (height * width))
            high, wide = math.ceil(height * grown / side) * side, math.ceil(width * grown / side) * side
        rows, columns = high // self.patch, wide // self.patch
        tokens = rows * columns // self.merge**2
        return ImageLayout(wide, high, rows, columns, 1, tokens, tokens)
