"""Parts of a picture that can be encoded alone."""

from templates_lib.media.anyres_tiles import AnyresTiles
from templates_lib.media.aspect_tiles import AspectTiles
from templates_lib.media.image_layout import ImageLayout, ImageRule
from templates_lib.media.split_tiles import SplitTiles

APART = (AnyresTiles, AspectTiles, SplitTiles)
"""Rules of families whose encoders see one tile at a time: LLaVA-OneVision, InternVL, Idefics3. Tiles of Llama 3.2
Vision see each other, and a picture of Qwen-VL is one tile."""


def parts_of(rule: ImageRule, layout: ImageLayout) -> tuple[int, ...]:
    """Image tokens of each part: one a tile where tiles do not see each other, else the whole picture."""
    if not isinstance(rule, APART):
        return (layout.image_tokens,)
    return (layout.image_tokens // layout.tiles,) * layout.tiles
