"""Tokens of pictures of any size equal those of the processors that transformers publishes."""

import random
import types
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Clips
from agents.media.sound import resampled
from templates_lib.graphs.catalogue import graph_names, load_graph
from templates_lib.graphs.media_tokens import (
    NoSuchMediaError,
    clip_tokens,
    heard_rows,
    hearing,
    image_layout,
    image_rule,
)
from templates_lib.media.image_layout import ImageLayout, ImageSizeError
from templates_lib.media.split_tiles import SplitTiles

TABLE_1 = {
    "llama-3.2-11b-vision": (4, 6404),
    "llama-3.2-90b-vision": (4, 6404),
    "llava-onevision-7b": (10, 7290),
    "llava-onevision-72b": (10, 7290),
    "internvl2.5-26b": (5, 1280),
    "nvlm-d-72b": (5, 1280),
}
"""Tiles and image tokens of a picture of 896 by 896 pixels (ModServe, Table 1)."""
BLIND = {"kokoro-82m", "qwen-image", "whisper-large-v3", "whisper-tiny.en", "word-pictures"}
SEES = [name for name in graph_names() if name not in BLIND]
Size = tuple[int, int]
Counted = tuple[int, ...]


def sizes(seed: int) -> Iterator[Size]:
    """Widths and heights, most as people send them, some narrow, tiny or huge, some at the edges of tiles."""
    draw = random.Random(seed)
    edges = [side * times + off for side in (14, 28, 336, 364, 384, 448, 512, 560) for times in (1, 2, 3, 4)
             for off in (-1, 0, 1)]  # fmt: skip
    while True:
        kind = draw.random()
        if kind < 0.6:
            yield int(draw.lognormvariate(6.2, 0.6)) + 1, int(draw.lognormvariate(6.2, 0.6)) + 1
        elif kind < 0.8:
            yield draw.choice(edges), draw.choice(edges)
        else:
            yield draw.randint(1, 8000), draw.randint(1, 8000)


@pytest.mark.parametrize("name", TABLE_1)
def test_the_papers_six_models_make_its_tiles_and_tokens(name: str) -> None:
    layout = image_layout(load_graph(name), 896, 896)
    assert (layout.tiles, layout.image_tokens) == TABLE_1[name]


def qwen(size: Size) -> Counted:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    height, width = smart_resize(size[1], size[0], 28, 3136, 12_845_056)
    return width, height, width * height // 784, width * height // 784


def intern(size: Size) -> Counted:
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import get_optimal_tiled_canvas

    columns, rows = get_optimal_tiled_canvas((size[1], size[0]), (448, 448), 1, 12)
    tiles = rows * columns + (rows * columns > 1)
    return 448 * columns, 448 * rows, 256 * tiles, 256 * tiles + 2  # `InternVLProcessor._get_num_multimodal_tokens`


def llama(size: Size) -> Counted:
    from transformers.models.mllama.image_processing_pil_mllama import get_optimal_tiled_canvas

    height, width = get_optimal_tiled_canvas(size[1], size[0], 4, 560)
    return int(width), int(height), int(width // 560 * height // 560 * 1601), 1


def llava(size: Size) -> Counted:
    from transformers.image_processing_utils import select_best_resolution
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
    from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor

    pinpoints = LlavaOnevisionImageProcessorPil.image_grid_pinpoints
    height, width = select_best_resolution((size[1], size[0]), pinpoints)
    counting = types.SimpleNamespace(
        image_processor=types.SimpleNamespace(image_grid_pinpoints=pinpoints),
        num_image_tokens=729,
        vision_aspect_ratio="anyres_max_9",
    )
    counting._get_unpadded_features = types.MethodType(LlavaOnevisionProcessor._get_unpadded_features, counting)
    prompt = LlavaOnevisionProcessor._get_number_of_features(counting, size[1], size[0], 384, 384)
    return width, height, (width // 384 * height // 384 + 1) * 729, prompt


def idefics(size: Size) -> Counted:
    """The processor's own steps over pictures that are sizes without pixels."""
    from transformers.image_processing_backends import PilBackend
    from transformers.image_utils import SizeDict
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    processor = Idefics3ImageProcessorPil(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PilBackend, "resize", lambda _self, _image, size, **_: blank(size.width, size.height))
        scaled = processor.resize_for_vision_encoder(
            processor.resize(blank(*size), SizeDict(longest_edge=2048)), vision_encoder_max_size=512
        )
        frames, rows, columns = processor.split_images(scaled, {"longest_edge": 512})
    # `Idefics3Processor._get_num_multimodal_tokens`, with 64 rows a tile.
    prompt = 64 + 3 + rows * (columns * (64 + 2) + 1)
    return scaled.shape[2], scaled.shape[1], 64 * len(frames), prompt


def blank(width: int, height: int) -> np.ndarray:
    return np.broadcast_to(np.uint8(0), (3, height, width))


FAMILIES: dict[str, Callable[[Size], Counted]] = {
    "qwen2.5-vl-7b": qwen,
    "internvl2.5-26b": intern,
    "llama-3.2-11b-vision": llama,
    "llava-onevision-7b": llava,
    "smolvlm-256m": idefics,
}


def agree(name: str, number: int) -> None:
    rule = image_rule(load_graph(name))
    for size in islice(sizes(7), number):
        if name.startswith("qwen") and max(size) > 200 * min(size):
            with pytest.raises(ImageSizeError):
                rule.layout(*size)
            continue
        mine = rule.layout(*size)
        assert (mine.width, mine.height, mine.image_tokens, mine.prompt_tokens) == FAMILIES[name](size), size


@pytest.mark.parametrize("name", FAMILIES)
def test_sizes_and_tokens_equal_those_of_transformers(name: str) -> None:
    agree(name, 2000)


def test_prompt_tokens_of_split_pictures_equal_the_processors_text() -> None:
    """The text that stands for a picture, counted as the tags and rows that it is made of."""
    from transformers.models.idefics3.processing_idefics3 import Idefics3Processor

    texts = {"fake_image_token": "F", "global_image_tag": "G", "image_token": "I"}
    writing = types.SimpleNamespace(**texts, image_seq_len=64)
    rule = SplitTiles(512, 2048, 64)
    for size in islice(sizes(3), 50):
        layout = rule.layout(*size)
        grid = {"rows": [[layout.rows]], "cols": [[layout.columns]]}
        text = Idefics3Processor.replace_image_token(writing, grid, 0)
        for row in range(layout.rows):
            for column in range(layout.columns):
                text = text.replace(f"<row_{row + 1}_col_{column + 1}>", "T")
        assert layout.prompt_tokens == len(text.replace("\n\n", "\n"))


@pytest.mark.parametrize("name", SEES)
def test_any_size_is_counted_or_refused(name: str) -> None:
    rule = image_rule(load_graph(name))
    for size in islice(sizes(11), 200):
        try:
            layout = rule.layout(*size)
        except ImageSizeError:
            continue
        assert isinstance(layout, ImageLayout)
        assert layout.tiles >= 1
        assert layout.image_tokens >= 1
        assert layout.prompt_tokens >= 1
        assert layout.width % layout.columns == 0
        assert layout.height % layout.rows == 0
    for size in ((0, 5), (5, 0), (-1, 5)):
        with pytest.raises(ImageSizeError):
            rule.layout(*size)


def test_clips_are_counted_by_their_seconds() -> None:
    assert clip_tokens(load_graph("whisper-tiny.en"), 1.0) == 1500
    assert clip_tokens(load_graph("qwen2.5-omni-7b"), 8.0) == 200


def test_models_without_eyes_or_ears_say_so() -> None:
    with pytest.raises(NoSuchMediaError, match="whisper"):
        image_rule(load_graph("whisper-tiny.en"))
    with pytest.raises(NoSuchMediaError, match="llava"):
        clip_tokens(load_graph("llava-onevision-7b"), 1.0)


@given(st.integers(321, 40_000), st.sampled_from([8_000, 16_000, 44_100]))
def test_a_clip_has_the_rows_that_its_encoder_makes_of_it(frames: int, rate: int) -> None:
    made = resampled(np.zeros(frames, np.float32), rate, 16_000)
    unit, clips = EncoderUnit("a", made), Clips(16_000, 480_000, 160)
    if clips.refusal(unit) is None:
        assert heard_rows(hearing(load_graph("qwen2.5-omni-7b")), frames, rate) == clips.rows_out(unit)
    assert heard_rows(hearing(load_graph("whisper-tiny.en")), frames, rate) == 1500
