import pytest

from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.media_tokens import image_layout, image_rule
from templates_lib.media.parts import parts_of


@pytest.mark.parametrize(("name", "parts"), [
    ("internvl2.5-26b", (256,) * 5), ("llava-onevision-7b", (729,) * 10), ("llama-3.2-11b-vision", (6404,)),
    ("qwen2.5-vl-7b", (1024,)), ("idefics3-8b", (169,) * 17),
])  # fmt: skip
def test_tiles_are_parts_where_they_do_not_see_each_other(name: str, parts: tuple[int, ...]) -> None:
    graph = load_graph(name)
    assert parts_of(image_rule(graph), image_layout(graph, 896, 896)) == parts


@pytest.mark.parametrize("name", ["internvl2.5-26b", "llama-3.2-11b-vision", "llava-onevision-7b", "smolvlm-256m"])
@pytest.mark.parametrize("size", [(40, 900), (333, 500), (1000, 1400), (2300, 700)])
def test_parts_of_a_picture_are_all_of_it(name: str, size: tuple[int, int]) -> None:
    graph = load_graph(name)
    layout = image_layout(graph, *size)
    assert sum(parts_of(image_rule(graph), layout)) == layout.image_tokens
