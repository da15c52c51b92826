"""A decoded picture as its encoder sees it: scaled, padded and cut, by Pillow's own filters as transformers has it."""

from PIL import Image

from templates_lib.media.anyres_tiles import AnyresTiles
from templates_lib.media.aspect_tiles import AspectTiles
from templates_lib.media.canvas_tiles import CanvasTiles
from templates_lib.media.patch_grid import PatchGrid
from templates_lib.media.rules import AnyRule
from templates_lib.media.split_tiles import SplitTiles

_Filter = Image.Resampling
Size = tuple[int, int]
"""Width and height."""


def pieces_of(image: Image.Image, rule: AnyRule) -> list[Image.Image]:
    """Tiles of one size, line by line; the whole picture is the first of LLaVA-OneVision's, and else the last where the
    family adds it. One piece of any size where patches are cut by the encoder. Raises ImageSizeError."""
    layout = rule.layout(*image.size)
    canvas = layout.width, layout.height
    match rule:
        case PatchGrid():
            return [image.resize(canvas, _Filter.BICUBIC)]
        case AspectTiles(tile=tile):
            cut = _cut(image.resize(canvas, _Filter.BICUBIC), tile)
            return [*cut, image.resize((tile, tile), _Filter.BICUBIC)] if layout.tiles > len(cut) else cut
        case CanvasTiles(tile=tile):
            fitted = image.resize(rule.fitted(*image.size), _Filter.BILINEAR)
            return _cut(_pasted(fitted, canvas, (0, 0)), tile)
        case AnyresTiles(tile=tile):
            fitted = image.resize(rule.fitted(*image.size), _Filter.BICUBIC)
            corner = (canvas[0] - fitted.width) // 2, (canvas[1] - fitted.height) // 2
            return [image.resize((tile, tile), _Filter.BICUBIC), *_cut(_pasted(fitted, canvas, corner), tile)]
        case SplitTiles(tile=tile):
            scaled = image.resize(rule.scaled(*image.size), _Filter.LANCZOS).resize(canvas, _Filter.LANCZOS)
            cut = _cut(scaled, tile)
            return [*cut, scaled.resize((tile, tile), _Filter.LANCZOS)] if layout.tiles > 1 else cut


def _pasted(image: Image.Image, canvas: Size, corner: Size) -> Image.Image:
    """On black."""
    whole = Image.new("RGB", canvas)
    whole.paste(image, corner)
    return whole


def _cut(canvas: Image.Image, tile: int) -> list[Image.Image]:
    return [
        canvas.crop((left, top, left + tile, top + tile))
        for top in range(0, canvas.height, tile)
        for left in range(0, canvas.width, tile)
    ]
