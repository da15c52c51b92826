"""Recorded tasks as graphs: those that ship give models as they are published, others are refused with the reason."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from control.tasks.shipped_task import LIBRARY, shipped_names
from medley_sdk import Request, Workflow, decoder, encoder, generator, workflow
from medley_sdk import replayable_choice as choice
from medley_sdk.recording import branches
from templates_lib.apps.graph_app import GraphApp
from templates_lib.executors.option import DeploymentOption
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.graphs.request_type import Lengths, possible_types, request_type
from templates_lib.tasks.recorded_ways import ways_of
from templates_lib.tasks.samples import samples, type_of
from templates_lib.tasks.task_ways import TaskWays, graph_of

VL, OMNI = "qwen2.5-vl-7b", "qwen2.5-omni-7b"
VISION, LANGUAGE, BOTH = encoder("vision", of=VL), decoder("language", of=VL), decoder("vision", "language", of=VL)
THINKER, TALKER, VOCODER = decoder("thinker", of=OMNI), decoder("talker", of=OMNI), generator("vocoder", of=OMNI)


def ways(flow: Workflow, graph: ModelGraph) -> TaskWays:
    signatures = (each for kind in samples(flow.takes, flow.makes).values() for each in kind)
    return ways_of(graph, [record for each in signatures for record in branches(flow, each)])


@pytest.mark.parametrize("name", shipped_names())
def test_a_task_that_ships_gives_its_graph_and_all_its_request_types(name: str) -> None:
    graph = load_graph(name)
    function = LIBRARY[tuple(component.name for component in graph.components)]
    found = ways(getattr(import_module(f"medley_sdk.library.{function}"), function)(name), graph)
    assert graph_of(graph, found) == graph
    assert set(found.request_types) == set(possible_types(graph))
    assert not found.at_once


def test_samples_are_named_as_their_request_types() -> None:
    for kind, signatures in samples(("text", "image", "audio"), ("text", "audio")).items():
        assert {type_of(each) for each in signatures} == {kind}


def test_paths_are_those_of_the_code_and_no_others() -> None:
    @workflow(takes=("text", "image"))
    async def chat(request: Request) -> Any:
        if not request.images:
            return LANGUAGE(request.text)
        if choice("helped", "together") == "together":
            return BOTH(request.text, request.images)
        return BOTH(request.text, [VISION(image) for image in request.images])

    graph = load_graph(VL)
    found = ways(chat, graph)
    kinds = tuple(
        request_type(graph, name, components, Lengths(), 0.5) for name, components in possible_types(graph).items()
    )
    app = GraphApp("vl", graph, kinds, task=found)
    executors = app.executors([DeploymentOption(components) for components in app.sets])
    assert {name: {path.name for path in paths} for name, paths in executors.paths.items()} == {
        "text-to-text": {"language"},
        "image-text-to-text": {"vision -> vision+language", "vision+language"},
    }
    assert {way.options: way.choices for way in found.ways if way.request_type == "image-text-to-text"} == {
        (("vision",), ("vision", "language")): (0,),
        (("vision", "language"),): (1,),
    }


def test_a_task_may_serve_a_part_of_a_model_and_hand_on_whole_what_could_stream() -> None:
    @workflow(makes=("audio",))
    async def speak(request: Request) -> Any:
        return VOCODER(TALKER(THINKER(request.text)).stream)

    graph = load_graph(OMNI)
    found = ways(speak, graph)
    served = graph_of(graph, found)
    assert [component.name for component in served.components] == ["thinker", "talker", "vocoder"]
    assert {edge.name: edge.stream for edge in served.edges} == {"thinker -> talker": False, "talker -> vocoder": True}
    assert found.request_types == ("text-to-audio",)


async def _unknown_component(request: Request) -> Any:
    return decoder("langauge", of=VL)(request.text, request.images)


async def _another_kind(request: Request) -> Any:
    return LANGUAGE(request.text, [generator("vision", of=VL)(image) for image in request.images])


async def _component_twice(request: Request) -> Any:
    return LANGUAGE(LANGUAGE(request.text, request.images))


async def _encoder_after_itself(request: Request) -> Any:
    return LANGUAGE(request.text, VISION(VISION(request.images)))


async def _component_left_out(request: Request) -> Any:
    return LANGUAGE(request.text)


async def _nothing_left(request: Request) -> Any:
    written = BOTH(request.text, request.images)
    return [VISION(image) for image in request.images], written


async def _out_of_order(request: Request) -> Any:
    written = LANGUAGE(request.text)
    return [VISION(image) for image in request.images], written


async def _image_to_who_reads_none(request: Request) -> Any:
    return LANGUAGE(request.text, request.images, [VISION(image) for image in request.images])


async def _image_unread(request: Request) -> Any:
    return LANGUAGE(request.text, [VISION(image) for image in request.images[:1]])


async def _text_unread(request: Request) -> Any:
    return LANGUAGE([VISION(image) for image in request.images])


async def _rows_that_nobody_takes(request: Request) -> Any:
    [VISION(image) for image in request.images]
    return LANGUAGE(request.text)


async def _returns_nothing(request: Request) -> Any:
    LANGUAGE(request.text, [VISION(image) for image in request.images])


async def _returns_the_request(request: Request) -> Any:
    return LANGUAGE(request.text, [VISION(image) for image in request.images]), request.text


async def _streams_what_goes_at_once(request: Request) -> Any:
    return LANGUAGE(request.text, [VISION(image).stream for image in request.images])


async def _counts_images(request: Request) -> Any:
    if len(request.images) > 1:
        return BOTH(request.text, request.images)
    return LANGUAGE(request.text, [VISION(image) for image in request.images])


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (_unknown_component, "language"),
        (_another_kind, "vision"),
        (_component_twice, "language"),
        (_encoder_after_itself, "vision"),
        (_component_left_out, "vision"),
        (_nothing_left, "vision"),
        (_out_of_order, "vision"),
        (_image_to_who_reads_none, "language"),
        (_image_unread, "image 1"),
        (_text_unread, "text"),
        (_rows_that_nobody_takes, "vision"),
        (_returns_nothing, "language|text"),
        (_returns_the_request, "request"),
        (_streams_what_goes_at_once, "vision"),
        (_counts_images, "image-text-to-text"),
    ],
)
def test_a_run_that_is_no_path_of_its_graph_is_refused(code: Callable[..., Any], names: str) -> None:
    with pytest.raises(GraphError, match=names):
        ways(workflow(takes=("text", "image"))(code), load_graph(VL))


def test_requests_that_the_model_has_not_are_refused() -> None:
    @workflow(makes=("audio",))
    async def speak(request: Request) -> Any:
        return LANGUAGE(request.text)

    with pytest.raises(GraphError, match="text-to-audio"):
        ways(speak, load_graph(VL))
