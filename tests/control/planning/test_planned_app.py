"""An app as a plan serves it, against figures that are worked out by hand."""

from dataclasses import replace

import pytest

from control.planning.planned_app import PlannedApp, planned_app
from templates_lib.apps.graph_app import GraphApp
from templates_lib.graphs.component import Component, ComponentWork, EncoderSpec, Modality
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.values.offer import Market
from templates_lib.values.plan import Flow, PlannedInstance
from templates_lib.values.work import Demand, Edge, Leg, Route, Unit
from tests import factories as make
from tests.templates_lib.units import cell_template

IMAGE, TEXT = "image-text-to-text", "text-to-text"
ALONE, TOGETHER, LANGUAGE = "vl/vision", f"vl/vision+language/{IMAGE}", "vl/language"
ROUTES = (
    Route("apart", "vl", IMAGE, (Leg(ALONE, 500.0), Leg(LANGUAGE, 10.0)), (Edge(0, 1, 9000.0),)),
    Route("together", "vl", IMAGE, (Leg(TOGETHER, 1.0),), ()),
    Route("text", "vl", TEXT, (Leg(LANGUAGE, 10.0),), ()),
)


def app() -> GraphApp:
    network = EncoderSpec(Network(1.0, (), ()))
    parts = (
        Component("vision", Unit.IMAGE_TOKEN, network, 9, 9),
        Component("language", Unit.OUTPUT_TOKEN, network, 9, 9, answers=Modality.TEXT),
    )
    graph = ModelGraph("qwen", "", parts, (GraphEdge("vision", "language", 9, required=False),))
    both = {"vision": ComponentWork(500.0), "language": ComponentWork(10.0)}
    types = (GraphRequestType(IMAGE, both, 0.8), GraphRequestType(TEXT, {"language": ComponentWork(10.0)}, 0.2))
    return GraphApp("vl", graph, types)


def shown() -> PlannedApp:
    """Two instances of two readers on a GPU each and an executor of both components on two, at 4 $/h each."""
    flows = (
        Flow("apart", ("cloud/a", "cloud/a"), 2.0, 0.0), Flow("apart", ("cloud/a", "cloud/b"), 1.0, 0.5),
        Flow("together", ("cloud/a",), 2.0, 0.0), Flow("text", ("cloud/b",), 1.0, 0.0),
    )  # fmt: skip
    made = cell_template()
    instance = PlannedInstance(
        made.id, "vl", "cell", "cloud/a", Market.ON_DEMAND, 2, 0, made.nodes,
        {ALONE: 1000.0, TOGETHER: 1.25, LANGUAGE: 50.0}, 8.0,
    )  # fmt: skip
    demand = (Demand("vl", IMAGE, 5.0), Demand("vl", TEXT, 2.0), Demand("other", TEXT, 9.0))
    plan = make.plan([instance.with_template(made)], [], flows)
    return planned_app(app(), plan, replace(make.snapshot((), ROUTES, {}), demand=demand))


def test_types_are_served_on_their_paths() -> None:
    image, text = shown().request_types
    assert (image.requests_per_s, image.served_per_s, text.requests_per_s, text.served_per_s) == (5.0, 5.0, 2.0, 1.0)
    assert [path.stages for path in image.paths] == [(("vision",), ("language",))] * 2 + [(("vision", "language"),)]
    assert text.paths[0].zones == ("cloud/b",)


def test_work_is_a_share_of_what_is_rented_for_it() -> None:
    work = {each.work_class: each for each in shown().work}
    assert list(work) == [ALONE, TOGETHER, LANGUAGE]
    assert (work[ALONE].units_per_s, work[ALONE].capacity_per_s, work[ALONE].load) == (1500.0, 2000.0, 0.75)
    assert work[TOGETHER].load == pytest.approx(2.0 / 2.5)
    assert work[LANGUAGE].load == pytest.approx(40.0 / 100.0)


def test_components_cost_their_executors_by_gpus() -> None:
    vision, language = shown().components
    assert (vision.requests_per_s, language.requests_per_s) == (5.0, 6.0)
    assert (vision.executors, language.executors) == (6, 2)
    # Half of the four GPUs are the readers', of 8 $/h.
    assert (vision.usd_per_hour, vision.shared_usd_per_hour) == (4.0, 4.0)
    assert (language.usd_per_hour, language.shared_usd_per_hour) == (0.0, 4.0)
    assert (vision.load, language.load) == (pytest.approx(0.8), pytest.approx(0.8))
    assert [(each.components, each.gpus, each.count, each.usd_per_hour) for each in shown().executors] == [
        (("vision",), 1, 4, 4.0), (("vision", "language"), 2, 2, 4.0),
    ]  # fmt: skip
    assert (shown().usd_per_hour, shown().traffic_usd_per_hour) == (8.0, 0.5)


def test_an_edge_carries_what_is_computed_apart() -> None:
    (edge,) = shown().edges
    assert (edge.requests_per_s, edge.sent_per_s) == (5.0, 3.0)
    sent = 500.0 * app().graph.edges[0].bytes_per_unit
    assert (edge.bytes_per_s, edge.zones_bytes_per_s) == (3.0 * sent, 1.0 * sent)


def test_without_a_plan_there_is_the_graph_alone() -> None:
    bare = planned_app(app())
    assert [each.component for each in bare.components] == ["vision", "language"]
    assert (bare.work, bare.executors, bare.usd_per_hour, bare.components[0].load) == ((), (), 0.0, None)
    assert [each.served_per_s for each in bare.request_types] == [0.0, 0.0]
