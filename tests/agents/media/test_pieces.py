"""Pictures are scaled, padded and cut pixel by pixel as transformers' image processors do it."""

import io
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PIL import Image

from agents.media.decoder import Decoder, DecoderLimits
from agents.media.pieces import pieces_of
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.media_tokens import image_rule
from templates_lib.media.anyres_tiles import AnyresTiles
from templates_lib.media.image_header import ImageLimits, image_header
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.rules import RULES, AnyRule, name_of
from tests.media_files import png

Processor = Callable[[Image.Image], np.ndarray]
"""A picture → its pieces, as (pieces, channels, height, width)."""


def pictures(seed: int, most: int) -> Iterator[Image.Image]:
    draw = random.Random(seed)
    for size in ((1, 1), (640, 480), (333, 500), (most, most // 3)):
        yield noise(draw, *size)
    for _ in range(4):
        yield noise(draw, draw.randint(1, most), draw.randint(1, most))


def noise(draw: random.Random, width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(draw.randint(0, 1 << 30))
    coarse = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    return Image.fromarray(np.asarray(coarse) // 2 + rng.integers(0, 128, (height, width, 3), np.uint8))


def raw(made: dict[str, object]) -> np.ndarray:
    return np.asarray(made["pixel_values"])


def qwen(image: Image.Image) -> np.ndarray:
    from transformers.image_utils import SizeDict
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    size = SizeDict(shortest_edge=3136, longest_edge=12_845_056)
    channels = np.moveaxis(np.asarray(image), -1, 0)
    return Qwen2VLImageProcessorPil().resize(channels, size=size, resample=Image.Resampling.BICUBIC, factor=28)[None]


def intern(image: Image.Image) -> np.ndarray:
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    size = {"height": 448, "width": 448}
    processor = GotOcr2ImageProcessorPil(size=size, crop_to_patches=True, do_rescale=False, do_normalize=False)
    return raw(processor(image, return_tensors="np"))


def llama(image: Image.Image) -> np.ndarray:
    from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil

    size = {"height": 560, "width": 560}
    made = MllamaImageProcessorPil(size=size, do_rescale=False, do_normalize=False)(image, return_tensors="np")
    return raw(made)[0, 0, : made["num_tiles"][0][0]]


def llava(image: Image.Image) -> np.ndarray:
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil

    return raw(LlavaOnevisionImageProcessorPil(do_rescale=False, do_normalize=False)(image, return_tensors="np"))[0]


def idefics(image: Image.Image) -> np.ndarray:
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    sizes = {"size": {"longest_edge": 1456}, "max_image_size": {"longest_edge": 364}}
    return raw(Idefics3ImageProcessorPil(**sizes, do_rescale=False, do_normalize=False)(image, return_tensors="np"))[0]


FAMILIES: dict[str, Processor] = {
    "qwen2.5-vl-7b": qwen,
    "internvl2.5-26b": intern,
    "llama-3.2-11b-vision": llama,
    "llava-onevision-7b": llava,
    "idefics3-8b": idefics,
}


def rule_of(name: str) -> AnyRule:
    rule = image_rule(load_graph(name))
    assert isinstance(rule, AnyRule)
    return rule


@pytest.mark.parametrize("name", FAMILIES)
def test_pixels_of_pieces_equal_those_of_transformers(name: str) -> None:
    for image in pictures(5, 900):
        made = np.stack([np.moveaxis(np.asarray(piece), -1, 0) for piece in pieces_of(image, rule_of(name))])
        expected = FAMILIES[name](image)
        assert made.shape == expected.shape, image.size
        assert np.array_equal(made, expected), image.size


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    made = Decoder(DecoderLimits())
    yield made
    made.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_decoder_cuts_by_the_rule_that_it_is_told(decoder: Decoder, name: str) -> None:
    image = noise(random.Random(9), 500, 300)
    stored = io.BytesIO()
    image.save(stored, "PNG")
    data, rule = stored.getvalue(), rule_of(name)
    pixels = decoder.decode(image_header(data, ImageLimits()), data, rule)
    pieces = pieces_of(image, rule)
    assert (pixels.width, pixels.height, pixels.pieces) == (*pieces[0].size, len(pieces))
    assert pixels.rgb == b"".join(piece.tobytes() for piece in pieces)
    assert pixels.pieces == rule.layout(500, 300).tiles


def test_a_size_that_a_model_does_not_read_is_refused_by_its_decoder(decoder: Decoder) -> None:
    data = png(4, 4000)
    with pytest.raises(MediaError) as refused:
        decoder.decode(image_header(data, ImageLimits()), data, rule_of("qwen2.5-vl-7b"))
    assert refused.value.fault is MediaFault.INVALID_IMAGE


def test_every_rule_has_a_name() -> None:
    assert name_of(AnyresTiles(384, 27, ((384, 384),), 9)) == "anyres"
    assert {name_of(rule_of(name)) for name in FAMILIES} == set(RULES)
