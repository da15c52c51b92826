"""Idefics3, SmolVLM: the picture scaled to one length of its longest side and cut, and the whole as one more tile."""

import math
from dataclasses import dataclass

from templates_lib.media.image_layout import ImageLayout, check_size

LONGEST = 4096
"""Pixels of the longest side that is ever made (`MAX_IMAGE_SIZE` of the processor)."""
BEFORE_ROWS = 2
"""Tokens before the rows of a tile: that an image begins, and which tile it is."""


@dataclass(frozen=True, slots=True)
class SplitTiles:
    tile: int
    """Pixels of a side."""
    longest: int
    """Pixels that the longest side is scaled to before the picture is cut."""
    tokens_per_tile: int

    def layout(self, width: int, height: int) -> ImageLayout:
        """See `ImageRule`. A line of tiles ends with a token, and the whole picture comes last, with one behind it
        (`Idefics3Processor`, with a tokenizer that has a token for two line ends)."""
        check_size(width, height)
        width, height = self._canvas(*self.scaled(width, height))
        rows, columns = height // self.tile, width // self.tile
        if rows * columns == 1:
            rows = columns = 0
        tiles = rows * columns + 1
        prompt = rows * (columns * (self.tokens_per_tile + BEFORE_ROWS) + 1) + self.tokens_per_tile + BEFORE_ROWS + 1
        return ImageLayout(width, height, max(rows, 1), max(columns, 1), tiles, tiles * self.tokens_per_tile, prompt)

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that a picture is scaled to before it is scaled to whole tiles."""
        return _bounded(*_to_longest(width, height, self.longest))

    def _canvas(self, width: int, height: int) -> tuple[int, int]:
        """Whole tiles on both sides: the longer side is rounded up first, the other one from the shape."""
        shape = width / height
        if width >= height:
            wide = self._whole(width)
            return wide, self._whole(int(wide / shape))
        high = self._whole(height)
        return self._whole(int(high * shape)), high

    def _whole(self, side: int) -> int:
        return math.ceil(side / self.tile) * self.tile


def _to_longest(width: int, height: int, longest: int) -> tuple[int, int]:
    """The longest side becomes `longest`, the other an even number of pixels."""
    shape = width / height
    if width >= height:
        return longest, max(_even(int(longest / shape)), 1)
    return max(_even(int(longest * shape)), 1), longest


def _even(side: int) -> int:
    return side + side % 2


def _bounded(width: int, height: int) -> tuple[int, int]:
    shape = width / height
    if width >= height and width > LONGEST:
        return LONGEST, max(int(LONGEST / shape), 1)
    if height > width and height > LONGEST:
        return max(int(LONGEST * shape), 1), LONGEST
    return width, height
