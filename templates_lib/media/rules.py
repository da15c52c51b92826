"""Rules by name: how one is told to another process."""

from templates_lib.media.anyres_tiles import AnyresTiles
from templates_lib.media.aspect_tiles import AspectTiles
from templates_lib.media.canvas_tiles import CanvasTiles
from templates_lib.media.patch_grid import PatchGrid
from templates_lib.media.split_tiles import SplitTiles

AnyRule = AnyresTiles | AspectTiles | CanvasTiles | PatchGrid | SplitTiles
RULES: dict[str, type[AnyRule]] = {
    "anyres": AnyresTiles,
    "aspect": AspectTiles,
    "canvas": CanvasTiles,
    "patches": PatchGrid,
    "split": SplitTiles,
}


def name_of(rule: AnyRule) -> str:
    return next(name for name, kind in RULES.items() if isinstance(rule, kind))
