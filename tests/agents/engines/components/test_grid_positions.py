"""Three positions of prompts with images: those of Qwen2.5-VL, from any token on."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2_5_VLModel

from agents.engines.grid_positions import GridSpan, grid_positions, grids_follow, text_position
from tests.agents.engines.components.tiny_graphs import IMAGE_TOKEN, QWEN_VL

Part = tuple[int, int, int]
"""Tokens of text, then rows and columns of an image."""
PARTS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4)


def spans_of(parts: list[Part]) -> tuple[list[GridSpan], int]:
    spans, at = [], 0
    for text, rows, columns in parts:
        spans.append(GridSpan(at + text, 1, rows, columns))
        at = spans[-1].end_token
    return spans, at + 4


@given(PARTS)
@settings(max_examples=60)
def test_positions_are_those_of_transformers(parts: list[Part]) -> None:
    spans, tokens = spans_of(parts)
    ids = torch.ones(1, tokens, dtype=torch.int64)
    for span in spans:
        ids[0, span.first_token : span.end_token] = IMAGE_TOKEN
    grids = torch.tensor([[1, 2 * span.rows, 2 * span.columns] for span in spans])
    model = Qwen2_5_VLModel.__new__(Qwen2_5_VLModel)  # what is asked of it needs no weights
    torch.nn.Module.__init__(model)
    model.config = QWEN_VL
    expected, delta = model.get_rope_index(ids, (ids == IMAGE_TOKEN).int(), image_grid_thw=grids)
    np.testing.assert_array_equal(grid_positions(spans, 0, tokens).T, expected[:, 0])
    assert text_position(spans, tokens + 5) == tokens + 5 + int(delta)


@given(PARTS, st.data())
def test_any_chunk_is_a_piece_of_the_whole(parts: list[Part], data: st.DataObject) -> None:
    spans, tokens = spans_of(parts)
    first = data.draw(st.integers(0, tokens - 1))
    count = data.draw(st.integers(1, tokens - first))
    whole = grid_positions(spans, 0, tokens)
    np.testing.assert_array_equal(grid_positions(spans, first, count), whole[first : first + count])
    for token in range(tokens):
        text = text_position(spans, token)
        assert (text is None) == any(span.first_token <= token < span.end_token for span in spans)
        assert text is None or (whole[token] == text).all()


def test_frames_of_a_video_are_as_far_apart_as_their_times() -> None:
    video = GridSpan(2, 3, 2, 2, frame_step=4)
    positions = grid_positions([video], 0, 15)
    assert positions[2:14, 0].tolist() == [2] * 4 + [6] * 4 + [10] * 4
    assert positions[14].tolist() == [11, 11, 11]
    half = grid_positions([GridSpan(0, 3, 1, 1, frame_step=2.5)], 0, 4)
    assert half[:, 0].tolist() == [0, 2, 5, 6]


@pytest.mark.parametrize(
    "sides", [(0, 1, 1, 1), (1, 0, 2, 1), (1, 1 << 20, 1, 1), (1, 1, 1, -1.0), (1, 1, 1, float("nan"))]
)
def test_senseless_grids_are_refused(sides: tuple[int, int, int, float]) -> None:
    with pytest.raises(ValueError, match="grid"):
        GridSpan(0, *sides)


def test_grids_may_touch_and_not_overlap() -> None:
    assert grids_follow([GridSpan(0, 1, 2, 2), GridSpan(4, 1, 1, 1)])
    assert not grids_follow([GridSpan(0, 1, 2, 2), GridSpan(3, 1, 1, 1)])
