"""What the windows of the Azure LMM trace that ship with Medley are, and that the released column is a square."""

import numpy as np
import pytest

from templates_lib.apps.shape_lengths import lengths_of
from templates_lib.graphs.request_type import Lengths
from templates_lib.load.shapes import load_shape, load_window

WINDOWS = {"azure-lmm-2024-10-16": (2000, 602, 0.717), "azure-lmm-2024-10-21": (1055, 315, 0.787)}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_has_every_row_with_its_arrival_and_pictures(name: str) -> None:
    rows, seconds, with_images = WINDOWS[name]
    window = load_window(name)
    assert len(window.arrival_s) == rows
    assert window.duration_s == pytest.approx(seconds, abs=1)
    assert (window.units["images"] > 0).mean() == pytest.approx(with_images, abs=1e-3)
    assert ((window.units["image_tokens"] > 0) == (window.units["images"] > 0)).all()


def test_tokens_of_large_requests_grow_by_one_image_for_each_of_the_root() -> None:
    window = load_window("azure-lmm-2024-10-21")
    images = window.units["images"]
    whole = window.prompt_tokens + window.units["image_tokens"]
    medians = {n: np.median(whole[images == n]) for n in (20, 21, 22, 23)}
    assert medians[22] - medians[21] == medians[23] - medians[22] == 1105


def test_means_of_a_window_are_those_of_its_requests_with_images() -> None:
    shape = load_shape("azure-lmm-2024-10-16")
    brings = shape.units["images"] > 0
    found = lengths_of(shape, Lengths())
    assert found.images == pytest.approx(shape.units["images"][brings].mean())
    assert found.prompt_tokens == pytest.approx(shape.prompt_tokens[brings].mean())


def test_lengths_alone_are_no_window() -> None:
    with pytest.raises(ValueError, match="no arrivals"):
        load_window("azure-code")
