"""InternVL, NVLM-D: the grid of tiles whose shape is nearest to the picture's, and the whole picture as one more."""

from dataclasses import dataclass

from templates_lib.media.image_layout import ImageLayout, check_size

AROUND = 2
"""Tokens before and behind the rows of a picture (`<img>`, `</img>`)."""


@dataclass(frozen=True, slots=True)
class AspectTiles:
    tile: int
    """Pixels of a side."""
    fewest_tiles: int
    most_tiles: int
    tokens_per_tile: int
    with_whole: bool = True
    """A picture of more than one tile is seen as a whole, too."""
    around: int = AROUND

    def layout(self, width: int, height: int) -> ImageLayout:
        """See `ImageRule`. Of grids that are as near, the one with more tiles, as long as the picture has pixels for
        half of them (`get_optimal_tiled_canvas` of GOT-OCR2's processor). Tags that a prompt names tiles with (NVLM-D)
        are text of as many tokens as the tokenizer makes of it, and not counted."""
        check_size(width, height)
        rows, columns = self._grid(width, height)
        tiles = rows * columns
        tiles += 1 if self.with_whole and tiles > 1 else 0
        tokens = tiles * self.tokens_per_tile
        return ImageLayout(columns * self.tile, rows * self.tile, rows, columns, tiles, tokens, tokens + self.around)

    def _grid(self, width: int, height: int) -> tuple[int, int]:
        shape, area, nearest, chosen = width / height, width * height, float("inf"), (1, 1)
        sides = range(1, self.most_tiles + 1)
        grids = [(r, c) for c in sides for r in sides if self.fewest_tiles <= r * c <= self.most_tiles]
        for rows, columns in sorted(grids, key=lambda grid: grid[0] * grid[1]):
            off = abs(shape - columns / rows)
            if off < nearest or (off == nearest and area > 0.5 * self.tile * self.tile * rows * columns):
                nearest, chosen = off, (rows, columns)
        return chosen
