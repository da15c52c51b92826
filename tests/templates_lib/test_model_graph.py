"""Graphs that cannot be served are refused, and request types say what they ask of each component."""

from dataclasses import replace

import pytest

from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import ComponentWork
from templates_lib.graphs.model_graph import GraphEdge, GraphError, ModelGraph
from templates_lib.graphs.request_type import GraphRequestType, Lengths, check_types, possible_types, request_type

OMNI = load_graph("qwen2.5-omni-7b")


def with_edges(*edges: GraphEdge) -> ModelGraph:
    return ModelGraph(OMNI.id, "", OMNI.components, edges)


def test_components_wait_for_nobody_behind_them_whatever_order_they_are_given_in() -> None:
    backwards = ModelGraph(OMNI.id, "", OMNI.components[::-1], OMNI.edges)
    place = {component.name: number for number, component in enumerate(backwards.components)}
    assert all(place[edge.source] < place[edge.target] for edge in backwards.edges)


def test_a_cycle_is_refused_with_its_components() -> None:
    thinker = replace(OMNI.component("thinker"), name="again", takes=3584, gives=3584)
    components = (*OMNI.components, thinker)
    with pytest.raises(GraphError, match=r"again.*thinker|thinker.*again"):
        ModelGraph("m", "", components, (GraphEdge("thinker", "again", 3584), GraphEdge("again", "thinker", 3584)))


def test_an_unknown_component_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(GraphError, match="'vision'"):
        with_edges(GraphEdge("visoin", "thinker", 3584))


@pytest.mark.parametrize("edge", [GraphEdge("vision", "thinker", 2048), GraphEdge("thinker", "vocoder", 3584)])
def test_an_edge_between_ends_of_other_widths_is_refused(edge: GraphEdge) -> None:
    with pytest.raises(GraphError, match=edge.name):
        with_edges(edge)


def test_a_name_is_given_once() -> None:
    with pytest.raises(GraphError, match="'vision'"):
        ModelGraph("m", "", (OMNI.components[0], OMNI.components[0]), ())


@pytest.mark.parametrize(
    "components",
    [set(), {"vision"}, {"talker", "vocoder"}, {"thinker", "talker"}, {"vision", "thinker", "vocoder"}, {"thinkr"}],
)
def test_a_type_that_no_path_serves_is_refused(components: set[str]) -> None:
    with pytest.raises(GraphError):
        request_type(OMNI, "odd", components, Lengths())


def test_every_possible_type_can_be_asked_for() -> None:
    types = possible_types(OMNI)
    mix = [request_type(OMNI, name, components, Lengths(), 1 / len(types)) for name, components in types.items()]
    check_types(OMNI, mix)
    assert [each.components for each in mix] == list(types.values())


def test_shares_are_a_mix_of_types_that_differ() -> None:
    text = GraphRequestType("text", {"thinker": ComponentWork(10)}, 0.5)
    with pytest.raises(GraphError, match="add up"):
        check_types(OMNI, [text])
    with pytest.raises(GraphError, match="'same'"):
        check_types(OMNI, [text, replace(text, name="same")])
    with pytest.raises(GraphError, match="share"):
        check_types(OMNI, [replace(text, share=float("nan"))])


def test_rows_of_encoders_stand_in_the_prompt_and_speech_follows_the_answer() -> None:
    lengths = Lengths(prompt_tokens=100, output_tokens=10, images=2, tokens_per_image=300, clip_s=8, speech_s=3)
    kind = request_type(OMNI, "all", possible_types(OMNI)["image-audio-text-to-audio"], lengths)
    assert kind.work["vision"] == ComponentWork(600, 2)
    assert kind.work["hearing"].units == 8 * 25
    assert kind.work["thinker"] == ComponentWork(10, 1, 100 + 600 + 200)
    assert kind.work["talker"].units == 3 * 50
    assert kind.work["talker"].context_tokens == 910
    assert kind.work["vocoder"].units == 3


def test_whisper_reads_clips_of_thirty_seconds_apart_from_the_text() -> None:
    graph = load_graph("whisper-large-v3")
    kind = request_type(graph, "t", ("hearing", "writing"), Lengths(clips=2, clip_s=31))
    assert kind.work["hearing"] == ComponentWork(2 * 3000, 2)
    assert kind.work["writing"].context_tokens < 10
    assert kind.work["writing"].cross_tokens == 2 * 3000


def test_layers_that_attend_to_images_keep_them_beside_the_prompt() -> None:
    graph = load_graph("llama-3.2-11b-vision")
    lengths = Lengths(prompt_tokens=100, images=1, tokens_per_image=6404)
    pictured = request_type(graph, "t", ("vision", "language"), lengths).work["language"]
    assert pictured.context_tokens == 100
    # Eight layers keep the image's rows, where 32 keep the text.
    assert pictured.cross_tokens == 6404 / 4
    assert request_type(graph, "t", ("language",), lengths).work["language"].cross_tokens == 0


def test_steps_of_a_picture_have_its_size_and_the_text() -> None:
    graph = load_graph("qwen-image")
    lengths = Lengths(prompt_tokens=50, image_pixels=1024 * 1024, steps=30)
    kind = request_type(graph, "t", ("text", "picture"), lengths)
    assert kind.work["picture"] == ComponentWork(30, 1, 50, 4096)
    edge = graph.edges[0]
    assert edge.bytes_of(kind.work["text"]) == 50 * 3584 * 2
