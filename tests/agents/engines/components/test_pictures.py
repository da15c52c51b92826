"""A picture's pieces become what transformers' processors make of it, and an encoder takes them."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from transformers import PreTrainedModel
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.engines.components.pictures import picture_unit
from agents.engines.components.unit_kinds import Patches, Pixels, Samples, Tiles
from agents.engines.errors import BadBatchError
from agents.media.pieces import pieces_of
from agents.weights.checkpoint import Checkpoint
from templates_lib.media.colours import Colours, colours_of
from templates_lib.media.patch_grid import PatchGrid
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.engines.components.split_model import load_encoder

Made = Callable[[str], tuple[Checkpoint, PreTrainedModel]]
QWEN = Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, size={"shortest_edge": 64, "longest_edge": 4096})
CONFIG = {"image_mean": QWEN.image_mean, "image_std": QWEN.image_std, "rescale_factor": QWEN.rescale_factor}
PLAIN = Colours((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def picture(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8))


@pytest.mark.parametrize("size", [(40, 24), (33, 70), (7, 5)])
def test_patches_are_those_of_qwens_processor_and_its_encoder_takes_them(
    tiny_graph: Made, size: tuple[int, int]
) -> None:
    image = picture(*size)
    expected = QWEN(image, return_tensors="np")
    engine = load_encoder(tiny_graph("qwen-vl")[0], "qwen-vl")
    pieces = pieces_of(image, PatchGrid(4, 2, 64, 4096))
    unit = picture_unit("a", np.stack([np.asarray(each) for each in pieces]), engine.facts.takes, colours_of(CONFIG))
    assert unit.grid == tuple(expected["image_grid_thw"][0])
    np.testing.assert_allclose(unit.values, expected["pixel_values"], rtol=0, atol=1e-6)
    assert engine.encode([unit])[0].shape == (engine.facts.takes.rows_out(unit), engine.facts.row_width)


def test_tiles_and_pixels_have_channels_first() -> None:
    pieces = np.random.default_rng(1).integers(0, 256, (2, 28, 28, 3), np.uint8)
    tiles = picture_unit("a", pieces, Tiles(3, 28, 16, 4), PLAIN).values
    assert tiles.shape == (2, 3, 28, 28)
    assert tiles[1, 2, 5, 9] == pytest.approx(pieces[1, 5, 9, 2] / 255)
    pixels = picture_unit("a", pieces[:1, :14], Pixels(3, 7), Colours((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))).values
    assert pixels.shape == (3, 14, 28)
    assert pixels[1, 2, 3] == pytest.approx((pieces[0, 2, 3, 1] / 255 - 0.4) / 0.3, abs=1e-5)


def test_what_is_no_picture_for_the_encoder_is_refused() -> None:
    pieces = np.zeros((2, 28, 28, 3), np.uint8)
    for wrong, takes in (
        (pieces, Pixels(3, 7)),
        (pieces[0], Tiles(3, 28, 16, 4)),
        (pieces[..., :2], Tiles(3, 28, 16, 4)),
        (pieces[:1, :27], Patches(3, 2, 7, 2)),
        (pieces[:1], Samples(16_000, 480_000, 1500)),
    ):
        with pytest.raises(BadBatchError):
            picture_unit("a", wrong, takes, PLAIN)
    for change in ({"rescale_factor": 0.5}, {"image_mean": [0.5]}, {"image_std": [0.0, 1.0, 1.0]}, {"image_std": None}):
        with pytest.raises(UnsupportedModelError):
            colours_of(CONFIG | change)
