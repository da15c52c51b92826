"""Paths compute each component of a request type once, in order, and times of visits add up (Cornserve, 4.2 and C)."""

import pytest

from templates_lib.executors.executor_graph import ExecutorGraph, graph_of_options, graph_of_tasks
from templates_lib.executors.option import CompositeTask, DeploymentOption
from templates_lib.executors.path import Path, every_path, traffic_of
from templates_lib.executors.rates import Measured, colocation_factor, seconds_as_printed, seconds_by_type
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.model_graph import GraphError
from templates_lib.graphs.request_type import GraphRequestType, Lengths, possible_types, request_type

GRAPH = load_graph("qwen2.5-vl-32b")
E, L = DeploymentOption(("vision",), name="E"), DeploymentOption(("language",), name="L")
EL = DeploymentOption(("vision", "language"), name="EL")
TASKS = (CompositeTask((EL,)), CompositeTask((E, L)), CompositeTask((E, EL)))
"""Listing 2 of the paper."""


def types(image_share: float) -> tuple[GraphRequestType, ...]:
    image = request_type(GRAPH, "image", ("vision", "language"), Lengths(), image_share)
    return image, request_type(GRAPH, "text", ("language",), Lengths(), 1 - image_share)


def names(executors: ExecutorGraph) -> dict[str, set[str]]:
    return {kind: {path.name for path in paths} for kind, paths in executors.paths.items()}


def test_three_composite_tasks_give_the_executor_graph_of_figure_4() -> None:
    executors = graph_of_tasks(GRAPH, types(0.7), TASKS)
    assert names(executors) == {"image": {"EL", "E -> L", "E -> EL"}, "text": {"EL", "L"}}
    assert executors.edges == {("E", "L"), ("E", "EL")}
    assert names(graph_of_options(GRAPH, types(0.7), (E, L, EL))) == names(executors)


def test_only_what_goes_from_one_visit_to_another_is_sent() -> None:
    image, _ = types(0.7)
    paths = {path.name: path for path in graph_of_tasks(GRAPH, types(0.7), TASKS).paths["image"]}
    assert traffic_of(GRAPH, image, paths["EL"]) == ()
    (sent,) = traffic_of(GRAPH, image, paths["E -> EL"])
    assert sent.bytes_per_request == 600 * 5120 * 2


def test_every_path_of_an_omni_model_is_valid_and_there_once() -> None:
    graph = load_graph("qwen2.5-omni-7b")
    components = [component.name for component in graph.components]
    options = [DeploymentOption((name,)) for name in components]
    options += [DeploymentOption(tuple(components)), DeploymentOption(("talker", "vocoder")),
                DeploymentOption(("vision", "hearing")), DeploymentOption(("thinker", "vocoder"))]  # fmt: skip
    needed = possible_types(graph)["image-audio-text-to-audio"]
    found = every_path(graph, needed, options)
    assert len({frozenset(path.visits) for path in found}) == len(found)
    for path in found:
        order = [name for visit in path.visits for name in visit.components]
        assert sorted(order) == sorted(needed)
        step = {name: number for number, visit in enumerate(path.visits) for name in visit.components}
        assert all(step[edge.source] <= step[edge.target] for edge in graph.edges)
    assert "vision+hearing -> thinker -> talker+vocoder" in {path.name for path in found}
    # The vocoder waits for the talker: with the thinker it runs only where the thinker ran elsewhere.
    together = {visit.components for path in found for visit in path.visits if visit.option == "thinker+vocoder"}
    assert together == {("vocoder",)}


def test_a_type_that_no_option_completes_is_refused() -> None:
    with pytest.raises(GraphError, match="'image'"):
        graph_of_tasks(GRAPH, types(0.7), (CompositeTask((L,)),))
    with pytest.raises(ValueError, match="GPUs"):
        DeploymentOption(("vision",), 0)


def by_name(seconds: dict[tuple[str, Path], tuple[float, ...]]) -> dict[tuple[str, str], tuple[float, ...]]:
    return {(kind, path.name): each for (kind, path), each in seconds.items()}


def test_algorithm_3_gives_what_the_paper_prints() -> None:
    # E serves 2 of all requests a second, of which 0.5 are images: 1 s an image. L: 0.25 s a request.
    executors = graph_of_tasks(GRAPH, types(0.5), TASKS)
    seconds = by_name(seconds_as_printed(executors, types(0.5), {"E": 2.0, "L": 4.0, "EL": 1.0}))
    # EL takes 1 s a request in the mean where its parts take 0.5 * (1 + 0.25) + 0.5 * 0.25 = 0.75 s.
    factor = 1 / 0.75
    assert seconds["image", "E -> L"] == pytest.approx((1.0, 0.25))
    assert seconds["image", "EL"] == pytest.approx((1.25 * factor,))
    assert seconds["image", "E -> EL"] == pytest.approx((1.0, 0.25 * factor))
    assert seconds["text", "EL"] == pytest.approx((0.25 * factor,))


def test_algorithm_3_cannot_do_without_an_option_of_each_component_alone() -> None:
    executors = graph_of_tasks(GRAPH, types(0.5), TASKS[:1])
    with pytest.raises(ValueError, match="'EL'"):
        seconds_as_printed(executors, types(0.5), {"EL": 1.0})


def test_times_by_type_tell_what_one_mix_cannot() -> None:
    """Long prompts of images take the decoder longer than texts do; a factor is fitted over several mixes."""
    kinds = types(0.5)
    alone = {("vision", "image"): 0.5, ("language", "image"): 0.4, ("language", "text"): 0.1}
    mixes = ({"image": 1.0, "text": 0.0}, {"image": 0.2, "text": 0.8})
    measured = [Measured(mix, 1 / (1.3 * (mix["image"] * 0.9 + mix["text"] * 0.1))) for mix in mixes]
    factor = colocation_factor(EL, kinds, alone, measured)
    assert factor == pytest.approx(1.3)
    seconds = by_name(seconds_by_type(graph_of_tasks(GRAPH, kinds, TASKS), alone, {"EL": factor}))
    assert seconds["text", "EL"] == pytest.approx((0.13,))
    assert seconds["image", "E -> EL"] == pytest.approx((0.5, 0.52))
