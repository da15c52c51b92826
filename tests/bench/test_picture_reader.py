"""Pictures that the picture reader is trained with, and how its answers are judged."""

import numpy as np

from bench.picture_reader.drawing import COLOURS, SHAPES, SIDE, drawn


def test_a_seed_draws_one_picture_and_all_kinds_come() -> None:
    pictures = [drawn(seed) for seed in range(300)]
    assert np.array_equal(drawn(7).pixels, pictures[7].pixels)
    assert {(each.colour, each.shape) for each in pictures} == {(c, s) for c in COLOURS for s in SHAPES}
    for each in pictures:
        assert each.pixels.shape == (SIDE, SIDE, 3)
        ground = each.pixels[0, 0].astype(int)
        differing = np.abs(each.pixels.astype(int) - ground).sum(-1) > 60
        assert 0.02 < differing.mean() < 0.6, "something is there, on a ground that is seen"
        shade = each.pixels[differing].mean(0)
        nearest = min(COLOURS, key=lambda name: np.abs(shade - COLOURS[name]).sum())
        assert nearest == each.colour


def test_a_name_is_right_with_its_colour_and_shape_and_no_other() -> None:
    red = next(each for each in map(drawn, range(300)) if (each.colour, each.shape) == ("red", "circle"))
    assert red.is_named_by("A red circle.")
    assert red.is_named_by("It is a red Circle, I think")
    for answer in ("A red square.", "A blue circle.", "circle", "red", "A red circle or a red square.", ""):
        assert not red.is_named_by(answer)
