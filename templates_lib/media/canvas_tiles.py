"""Llama 3.2 Vision: the canvas of tiles that a picture fits into with the least scaling."""

import math
from dataclasses import dataclass

from templates_lib.media.image_layout import ImageLayout, check_size


@dataclass(frozen=True, slots=True)
class CanvasTiles:
    tile: int
    """Pixels of a side."""
    most_tiles: int
    tokens_per_tile: int

    def layout(self, width: int, height: int) -> ImageLayout:
        """See `ImageRule`. Of canvases that a picture has to be enlarged for, the one with the least; else the one that
        it is shrunk for the least; of equals, the smallest (`get_optimal_tiled_canvas` of Mllama's processor)."""
        check_size(width, height)
        most = range(1, self.most_tiles + 1)
        grids = [(rows, columns) for rows in most for columns in most if rows * columns <= self.most_tiles]
        scales = {(r, c): min(r * self.tile / height, c * self.tile / width) for r, c in grids}
        enlarging = [scale for scale in scales.values() if scale >= 1]
        chosen = min(enlarging) if enlarging else max(scales.values())
        rows, columns = min((grid for grid in grids if scales[grid] == chosen), key=lambda grid: grid[0] * grid[1])
        tiles = rows * columns
        # The prompt has one token, at which cross-attention layers look at all rows.
        return ImageLayout(
            columns * self.tile, rows * self.tile, rows, columns, tiles, tiles * self.tokens_per_tile, prompt_tokens=1
        )

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that a picture is scaled to, into its canvas: no smaller than a tile on the side that fills
        it, and never enlarged further (`get_image_size_fit_to_canvas` of the processor)."""
        layout = self.layout(width, height)
        wide = min(max(width, self.tile), layout.width)
        high = min(max(height, self.tile), layout.height)
        if wide / width < high / height:
            return wide, min(math.floor(height * (wide / width)) or 1, high)
        return min(math.floor(width * (high / height)) or 1, wide), high
