"""What an app asks of nodes: classes and routes, what executors sustain of them, within their networks and in time."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.graph_allocation import DrawnCosts, node, random_work
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.graph_app import GraphApp
from templates_lib.cells.region import Schedule, schedule_of
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model, usable_bytes_per_s
from templates_lib.executors.estimate import Estimate
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import Component, ComponentWork, Modality
from templates_lib.graphs.model_graph import GraphEdge, GraphError, ModelGraph
from templates_lib.graphs.objective import TypeObjective
from templates_lib.graphs.request_type import GraphRequestType, Lengths, possible_types, request_type
from templates_lib.sources.cell_source import CellSource
from templates_lib.sources.graph_record import read_graph_record
from templates_lib.sources.graph_source import ExecutorSource, GraphTemplateSource
from templates_lib.sources.placement_kinds import gpu_executors
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.template import Capacity, ServingTemplate
from templates_lib.values.work import Unit

COSTS = EstimatedComponentCost(estimated_cost_model(load_gpus()))
VL = load_graph("qwen2.5-vl-7b")
IMAGE, TEXT = "image-text-to-text", "text-to-text"
RELAXED = TypeObjective(ttft_ms=60_000, tpot_ms=1000)
A100, TWO = node_config_from_id("A100-80:1/n100"), node_config_from_id("A100-80:2/n100")
POD = node_config_from_id("A100-80:2/n0")


def app(objective: TypeObjective | None = RELAXED) -> GraphApp:
    possible = possible_types(VL)
    shares = {IMAGE: 0.75, TEXT: 0.25}
    types = (request_type(VL, name, possible[name], Lengths(), share, objective) for name, share in shares.items())
    return GraphApp("vl", VL, tuple(types))


def templates(source: GraphTemplateSource) -> Iterator[tuple[ServingTemplate, Capacity]]:
    for batch in source.build(source.units(), lambda *_: None):
        for row, record in zip(batch.nodes, batch.records, strict=True):
            nodes = {name: int(n) for name, n in zip(source.configs, row, strict=True) if n}
            yield read_graph_record(record, nodes)


def test_one_component_has_a_class_for_all_types_and_several_one_for_each() -> None:
    work = AppWork(app(), [A100, TWO], COSTS)
    assert {each.id: each.unit for each in work.classes} == {
        f"vl/vision+language/{IMAGE}": Unit.INVOCATION,
        "vl/vision": Unit.IMAGE_TOKEN,
        "vl/language": Unit.OUTPUT_TOKEN,
    }
    legs = {route.id: [leg.work_class for leg in route.legs] for route in work.routes()}
    assert legs == {
        f"vl/{IMAGE}/vision-language": ["vl/vision", "vl/language"],
        f"vl/{IMAGE}/vision+language": [f"vl/vision+language/{IMAGE}"],
        f"vl/{TEXT}/language": ["vl/language"],
    }
    (apart,) = (route for route in work.routes() if len(route.legs) == 2)
    rows = VL.edges[0].bytes_of(work.app.types[0].work["vision"])
    assert [(e.source, e.target, e.bytes_per_request) for e in apart.edges] == [(0, 1, pytest.approx(rows))]


def test_units_of_a_type_are_its_time_beside_that_of_others_and_in_the_mean_what_components_count() -> None:
    work = AppWork(app(), [A100, TWO], COSTS)
    units = {
        (route.request_type, leg.work_class): leg.units_per_request for route in work.routes() for leg in route.legs
    }
    assert units[IMAGE, "vl/vision"] == pytest.approx(work.app.types[0].work["vision"].units)
    language = {kind: units[kind, "vl/language"] for kind in (IMAGE, TEXT)}
    assert language[IMAGE] > language[TEXT]  # its prompt is longer by the rows of the image
    assert 0.75 * language[IMAGE] + 0.25 * language[TEXT] == pytest.approx(Lengths().output_tokens)


@pytest.mark.parametrize("config", [A100, TWO], ids=lambda each: each.id)
def test_no_executor_sustains_more_of_any_type_than_its_time_allows(config: object) -> None:
    work = AppWork(app(), [A100, TWO], COSTS)
    kinds = {kind.name: kind for kind in work.app.types}
    sizes = (1, 2)
    estimate = Estimate(VL, work.app.types, lambda gpus: replace(config, gpu_count=gpus), COSTS, sizes)  # type: ignore[type-var]
    found = 0
    for replica in work.replicas(config):  # type: ignore[arg-type]
        for route in work.routes():
            for leg in route.legs:
                if leg.work_class not in replica.units_per_s:
                    continue
                names = leg.work_class.split("/")[1].split("+")
                seconds = sum(estimate.request_seconds(replica.option, n, kinds[route.request_type]) for n in names)
                assert replica.units_per_s[leg.work_class] * seconds <= leg.units_per_request * (1 + 1e-9)
                found += 1
    assert found > 3


def test_a_node_that_no_other_reaches_serves_whole_requests_alone() -> None:
    work = AppWork(app(), [A100, POD], COSTS)
    whole = {f"vl/vision+language/{IMAGE}", f"vl/language/{TEXT}"}
    assert all(set(replica.units_per_s) <= whole for replica in work.replicas(POD))
    assert set().union(*(replica.units_per_s for replica in work.replicas(POD))) == whole
    assert "vl/language" in set().union(*(replica.units_per_s for replica in work.replicas(A100)))


def test_a_node_gives_no_more_than_its_network_carries() -> None:
    slow = replace(A100, id="slow", network_gbps=10.0)
    rows = VL.edges[0].bytes_per_unit
    most = usable_bytes_per_s(slow) / rows
    fast_encoder = DrawnCosts({"vision": 1e-9, "language": 1.0})
    source = ExecutorSource([AppWork(app(), [slow], fast_encoder)])
    alone = [c for t, c in templates(source) if gpu_executors(t)[0].components == ("vision",)]
    assert [point.units_per_s for point in alone[0].points] == [{"vl/vision": pytest.approx(most)}]


def test_objectives_bound_how_many_requests_are_served_at_once() -> None:
    def together(objective: TypeObjective | None) -> float:
        work = AppWork(app(objective), [A100], COSTS)
        return max(r.together[f"language/{IMAGE}"] for r in work.replicas(A100) if "vl/language" in r.units_per_s)

    assert together(None) == together(RELAXED) > together(TypeObjective(ttft_ms=2000, tpot_ms=40)) >= 1
    late = AppWork(app(TypeObjective(ttft_ms=2000, tpot_ms=0.1)), [A100], COSTS)
    assert list(late.replicas(A100)) == []
    assert late.routes() == ()


def test_what_sustains_no_more_than_another_on_the_same_node_is_left_out() -> None:
    work = AppWork(app(), [TWO], COSTS)
    every, kept = (list(templates(ExecutorSource([work], unpruned))) for unpruned in (frozenset({"vl"}), frozenset()))
    assert 0 < len(kept) < len(every)
    best = [c.points for _, c in kept]
    for _, capacity in every:  # what a template sustains of one class, a template that stayed does
        for point in capacity.points:
            assert any(
                all(other.units_per_s.get(k, 0.0) >= v for k, v in point.units_per_s.items())
                for points in best
                for other in points
            )


def test_a_template_is_read_back_as_it_was_made() -> None:
    source = CellSource([AppWork(app(), [TWO], COSTS)])
    found = list(templates(source))
    assert found
    for template, capacity in found:
        devices = [d for each in gpu_executors(template) for replica in each.devices for d in replica]
        assert sorted(devices) == sorted(set(devices))
        assert set(devices) <= {0, 1}
        assert len(gpu_executors(template)) == 2
        assert capacity.template_id == template.id
        assert capacity.points
    ids = {
        batch_id.decode() for batch in source.build(source.units(), lambda *_: None) for batch_id in batch.ids.tolist()
    }
    assert ids == {template.id for template, _ in found}


def test_a_closed_cell_serves_every_point_that_it_states() -> None:
    """Two executors on a node that no other reaches: requests go from one to the other inside."""
    parts = tuple(
        Component(name, Unit.INVOCATION, VL.component("vision").spec, 8, 8, answers=Modality.TEXT) for name in "ab"
    )
    graph = ModelGraph("pair", "", parts, (GraphEdge("a", "b", 8, required=False),))
    types = (
        GraphRequestType("both", {"a": ComponentWork(1.0), "b": ComponentWork(1.0)}, 0.5),
        GraphRequestType("last", {"b": ComponentWork(1.0)}, 0.5),
    )
    pod = node(4, network_gbps=0.0)
    work = AppWork(GraphApp("pair", graph, types, (("a",), ("b",))), [pod], DrawnCosts({"a": 3.0, "b": 1.0}))
    problem = work.problem(pod)
    assert problem is not None
    found = list(templates(CellSource([work])))
    assert found
    for template, capacity in found:
        assert len(capacity.points) > 1
        held = {"+".join(e.components): len(e.devices) for e in gpu_executors(template)}
        for point in capacity.points:
            rates = {name.rpartition("/")[2]: rate for name, rate in point.units_per_s.items()}
            inside = {kind: 0.999 * rate for kind, rate in rates.items()}
            assert isinstance(schedule_of(problem, held, inside), Schedule)


@pytest.mark.parametrize("objective", [TypeObjective(ttft_ms=100), TypeObjective(100, 10, image_s=3), TypeObjective()])
def test_an_objective_that_is_not_one_of_the_answer_is_refused(objective: TypeObjective) -> None:
    with pytest.raises(GraphError, match=TEXT):
        request_type(VL, TEXT, possible_types(VL)[TEXT], Lengths(), 1.0, objective)


@pytest.mark.parametrize("seed", range(4))
def test_every_type_has_a_route_whose_classes_some_executor_has(seed: int) -> None:
    import numpy as np

    work = random_work(np.random.default_rng(seed))
    offered = {name for config in work.nodes for replica in work.replicas(config) for name in replica.units_per_s}
    served = {r.request_type for r in work.routes() if all(leg.work_class in offered for leg in r.legs)}
    assert served == {kind.name for kind in work.app.types}
    assert all(math.isfinite(leg.units_per_request) for route in work.routes() for leg in route.legs)
