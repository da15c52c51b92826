"""Pixels of a picture as the numbers that an encoder takes: scaled, normalised and laid out, nothing else.

What is done before depends on the family, by rules that need no pixels (`templates_lib/media`), in processes that
decode (`agents/media`): here come pieces of the right size."""

import numpy as np
from numpy.typing import NDArray

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Patches, Pixels, Tiles, UnitKind
from agents.engines.errors import BadBatchError
from templates_lib.media.colours import WHITE, Colours

_CHANNELS = 3


def picture_unit(unit_id: str, pieces: NDArray[np.uint8], takes: UnitKind, colours: Colours) -> EncoderUnit:
    """(pieces, height, width, 3) red, green, blue → the unit of an encoder that takes pixels. Raises BadBatchError for
    one that takes none, and for pieces that it does not cut so."""
    is_single = len(pieces) == 1
    if pieces.ndim != 4 or pieces.shape[3] != _CHANNELS or not (is_single or isinstance(takes, Tiles)):
        raise BadBatchError(
            f"picture {unit_id!r}: {pieces.shape} is not (pieces, height, width, {_CHANNELS}), or not one piece"
        )
    mean, deviation = (np.array(each, np.float32) for each in (colours.mean, colours.deviation))
    scaled: NDArray[np.float32] = np.divide(pieces, WHITE, dtype=np.float32)
    scaled = np.divide(scaled - mean, deviation, dtype=np.float32)
    match takes:
        case Patches():
            return _patches(unit_id, scaled[0], takes)
        case Tiles():
            return EncoderUnit(unit_id, np.ascontiguousarray(np.moveaxis(scaled, -1, 1)))
        case Pixels():
            return EncoderUnit(unit_id, np.ascontiguousarray(np.moveaxis(scaled[0], -1, 0)))
        case _:
            raise BadBatchError(f"picture {unit_id!r} is for an encoder that takes none: {takes}")


def _patches(unit_id: str, image: NDArray[np.float32], takes: Patches) -> EncoderUnit:
    """Patches of (height, width, channels), those that are merged behind each other; a picture is as many equal frames
    as a patch has (`image_processing_qwen2_vl.py`)."""
    side = takes.patch * takes.merge
    height, width, channels = image.shape
    if height % side or width % side:
        raise BadBatchError(f"picture {unit_id!r}: {height} by {width} pixels are no squares of {side}")
    inside = (takes.merge, takes.patch)
    cut = image.reshape(height // side, *inside, width // side, *inside, channels)
    # (rows, columns, row in the square, column in it, channel, frame, pixels)
    ordered = cut.transpose(0, 3, 1, 4, 6, 2, 5)[..., None, :, :]
    whole = np.repeat(ordered, takes.frames, axis=-3)
    grid = (1, height // takes.patch, width // takes.patch)
    return EncoderUnit(unit_id, np.ascontiguousarray(whole).reshape(grid[1] * grid[2], takes.values), grid)
