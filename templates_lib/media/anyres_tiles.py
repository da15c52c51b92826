"""LLaVA-OneVision: the resolution of a list that keeps most of a picture, and the whole picture as one more tile."""

import math
from dataclasses import dataclass

from templates_lib.media.image_layout import ImageLayout, check_size

MOST_ROWS_KEPT = 1.1
"""Rows are scaled down once their square root is above this many times that of the most tiles' (modelling code)."""


@dataclass(frozen=True, slots=True)
class AnyresTiles:
    tile: int
    """Pixels of a side."""
    across: int
    """Patches along a side of a tile."""
    resolutions: tuple[tuple[int, int], ...]
    """Heights and widths that a canvas may have (`image_grid_pinpoints`)."""
    most_tiles: int
    """Tiles whose rows go to the decoder (`anyres_max_9`): those of more are interpolated to as many."""

    def layout(self, width: int, height: int) -> ImageLayout:
        """See `ImageRule`: of the only picture of a request (each of several is one tile, of `across` squared rows and
        one more token)."""
        check_size(width, height)
        canvas_height, canvas_width = min(
            self.resolutions, key=lambda canvas: (-_kept(canvas, width, height), canvas[0] * canvas[1])
        )
        rows, columns = canvas_height // self.tile, canvas_width // self.tile
        tiles, each = rows * columns + 1, self.across * self.across
        prompt = each + self._grid_tokens(width, height, rows * self.across, columns * self.across)
        return ImageLayout(canvas_width, canvas_height, rows, columns, tiles, tiles * each, prompt)

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that a picture is scaled to, into its canvas (`get_patch_output_size` of transformers)."""
        layout = self.layout(width, height)
        wide, high = layout.width / width, layout.height / height
        if wide < high:
            return layout.width, min(math.ceil(height * wide), layout.height)
        return min(math.ceil(width * high), layout.width), layout.height

    def _grid_tokens(self, width: int, height: int, high: int, wide: int) -> int:
        """Tokens of the grid: without rows that are padding alone, with one more token at each line's end."""
        if width / height > wide / high:
            high -= (high - int(round(height * (wide / width), 7))) // 2 * 2
        else:
            wide -= (wide - int(round(width * (high / height), 7))) // 2 * 2
        ratio = math.sqrt(high * wide / (self.most_tiles * self.across**2))
        if ratio > MOST_ROWS_KEPT:
            high, wide = int(high // ratio), int(wide // ratio)
        return high * wide + high


def _kept(canvas: tuple[int, int], width: int, height: int) -> int:
    """Pixels of the picture that are left of it when it is scaled into a canvas."""
    scale = min(canvas[1] / width, canvas[0] / height)
    return min(int(width * scale) * int(height * scale), width * height)
