"""Room for pictures and sounds of a model on their way to its encoders."""

import numpy as np
import pytest

from templates_lib.graphs.catalogue import graph_names, load_graph
from templates_lib.graphs.media_tokens import image_rule
from templates_lib.graphs.unit_room import slab_mib, unit_bytes
from templates_lib.media.patch_grid import PatchGrid

MIB = 1 << 20


def test_it_is_what_the_largest_picture_of_a_grid_of_patches_takes() -> None:
    graph = load_graph("qwen2.5-vl-7b")
    rule = image_rule(graph)
    assert isinstance(rule, PatchGrid)
    values, rows = unit_bytes(graph)
    sizes = np.random.default_rng(1).integers(28, 20_000, (300, 2))
    for width, height in sizes.tolist():
        if max(width, height) > 100 * min(width, height):
            continue
        layout = rule.layout(width, height)
        assert layout.width * layout.height * 3 * 2 * 4 <= values
        assert layout.image_tokens * graph.component("vision").gives * 4 <= rows
    assert values <= 308 * MIB


def test_a_window_of_speech_is_small_and_several_have_room() -> None:
    graph = load_graph("whisper-tiny.en")
    values, rows = unit_bytes(graph)
    assert values == 30 * 16_000 * 4
    assert rows == 1500 * 384 * 4
    assert slab_mib(graph) == 64


@pytest.mark.parametrize("name", graph_names())
def test_half_of_a_slab_has_room_for_either_of_the_largest(name: str) -> None:
    graph = load_graph(name)
    assert max(unit_bytes(graph)) <= slab_mib(graph) * MIB // 2
