"""A unit of several executors is simulated as its executors: each is a member of routing tables with its share of the
nodes, whether it makes text or serves what its template lists."""

from dataclasses import replace

import numpy as np
import pytest

from control.planning.recipe import ListedRecipe, PipelineRecipe, Recipe
from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from control.simulator.serving.simulate import simulate
from control.timing.pipeline_model import PipelineModel
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.placement import Executor, Placement, Share, Stage, StageNodes
from templates_lib.values.plan import Plan
from templates_lib.values.settings import SloSplit
from templates_lib.values.slo import Slo
from templates_lib.values.template import OperatingPoint, ServingTemplate
from templates_lib.values.work import Edge, Leg, Route, Unit, WorkClass
from tests.control.simulator.serving.test_plan_timeline import CONFIG, MODEL, SHAPE, plan_of, planned
from tests.templates_lib.units import unit_template

TEXT = tuple(ServedModel(name, MODEL, Slo(5000, 500), SHAPE, False, True, "vllm-stage") for name in ("chat", "code"))
PIPELINES = PipelineRecipe(TEXT, (CONFIG,), ((CONFIG.id,),), 2, 12.0, SloSplit.EVEN)
CLASSES = (
    WorkClass("eyes/encode", "eyes", "encode", Unit.IMAGE_TOKEN, "", 100),
    WorkClass("voice/speak", "voice", "speak", Unit.INVOCATION, "", 200),
)
SEEING = Route("seeing", "seeing", "chat", (Leg("eyes/encode", 500),))
SPEAKING = Route("speaking", "speaking", "chat", (Leg("voice/speak", 1),))
ALONE, KV_BLOCKS = 1.0, 800


def executor(name: str, share: float, kv_blocks: int = 0) -> Executor:
    nodes = (StageNodes(CONFIG.id, 1, 1.0, 1, 1, 1, 1, 16, 2048, KV_BLOCKS),)
    stages = (Stage(0, MODEL.layers, True, True, nodes),)
    return Executor(name, name, "vllm-stage", "bf16", stages, ((0,),), Share((), share, kv_blocks))


def unit(*executors: Executor) -> ServingTemplate:
    return unit_template(*executors, nodes={CONFIG.id: 1})


def plan(template: ServingTemplate, **units_per_s: float) -> Plan:
    """`units_per_s`: by work class, with `_` for its slash."""
    units = {name.replace("_", "/"): rate for name, rate in units_per_s.items()}
    one = replace(planned("prefill", "z1", 1, 1.0), units_per_s=units, nodes=template.nodes)
    return replace(plan_of(), instances=(replace(one, template_id=template.id).with_template(template),))


def listed(template: ServingTemplate, *points: dict[str, float]) -> Recipe:
    return Recipe((PIPELINES, ListedRecipe(CLASSES, (as_listed(template, *points),))))


def as_listed(template: ServingTemplate, *points: dict[str, float]) -> ListedTemplate:
    return ListedTemplate(template.software, template.nodes, template.placement, tuple(map(OperatingPoint, points)))


def routes() -> tuple[Route, ...]:
    return tuple(route for served in TEXT for route in served.routes())


def served_one_by_one(made: Plan, recipe: Recipe, apps: tuple[str, ...], ways: tuple[Route, ...]) -> Served:
    fleet = timeline_of_plan(made, recipe, ways, 1e4)
    n = 4 * len(apps)
    requests = Requests(apps, np.arange(n) % len(apps), 60.0 * np.arange(n), np.full(n, 300), np.full(n, 20))
    served = simulate(requests, fleet)
    assert (served.outcome == Outcome.SERVED).all()
    return replace(served, finish_s=served.finish_s - requests.arrival_s)


def test_each_text_model_of_a_unit_is_an_executor_that_serves_its_own_requests() -> None:
    both = unit(executor("chat", 0.5), executor("code", 0.5, kv_blocks=100))
    made = plan(both, chat_aggregated=2.0, code_aggregated=1.0)
    fleet = timeline_of_plan(made, Recipe((PIPELINES,)), routes(), 1e4)
    assert [(life.app, life.leg, dict(life.units_per_s)) for life in fleet.instances] == [
        ("chat", "whole", {"chat/aggregated": 2.0}),
        ("code", "whole", {"code/aggregated": 1.0}),
    ]
    assert [life.usd_per_hour for life in fleet.instances] == [1.5, 1.5]
    assert [life.id.rpartition("/")[2] for life in fleet.instances] == ["chat", "code"]
    blocks = [
        n.kv_blocks for life in fleet.instances if isinstance(life.station, PipelineModel) for n in life.station.nodes
    ]
    assert blocks == [KV_BLOCKS, 100]
    served = served_one_by_one(made, Recipe((PIPELINES,)), ("chat", "code"), routes())
    assert served.places[:, 0].tolist() == [0, 1] * 4


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_an_executor_takes_as_much_longer_as_its_share_is_smaller(share: float) -> None:
    took = []
    for own in (ALONE, share):
        rest = () if own == ALONE else (executor("code", 1 - own),)
        made = plan(unit(executor("chat", own), *rest), chat_aggregated=1.0)
        took.append(served_one_by_one(made, Recipe((PIPELINES,)), ("chat",), routes()).finish_s)
    np.testing.assert_allclose(took[1], took[0] / share, rtol=1e-9)


def test_executors_of_a_listed_unit_have_what_the_plan_counts_on() -> None:
    both = unit(executor("eyes", 0.5), executor("voice", 0.5))
    recipe = listed(both, {"eyes/encode": 2000.0}, {"voice/speak": 8.0}, {"eyes/encode": 1500.0, "voice/speak": 4.0})
    made = plan(both, eyes_encode=1600.0, voice_speak=3.2)
    served = served_one_by_one(made, recipe, ("seeing", "speaking"), (SEEING, SPEAKING))
    np.testing.assert_allclose(served.finish_s.reshape(-1, 2), [[500 / 1600, 1 / 3.2]] * 4)


def test_a_listed_unit_and_a_text_model_serve_the_legs_of_one_request() -> None:
    both = unit(executor("eyes", 0.5), executor("chat", 0.5))
    recipe = listed(both, {"eyes/encode": 1000.0, "chat/aggregated": 1.0})
    looking = Route(
        "looking", "looking", "chat", (Leg("eyes/encode", 500), Leg("chat/aggregated", 1)), (Edge(0, 1, 1e7),)
    )
    made = plan(both, eyes_encode=1000.0, chat_aggregated=1.0)
    lives = timeline_of_plan(made, recipe, (looking,), 1e4).instances
    assert [type(life.station) for life in lives] == [BatchModel, PipelineModel]
    with_eyes = served_one_by_one(made, recipe, ("looking",), (looking,)).finish_s
    alone = served_one_by_one(made, recipe, ("chat",), routes()).finish_s
    network_s = 1e7 / (node_config_from_id(CONFIG.id).network_gbps * 1e9 / 8)
    assert ((with_eyes > alone + 0.5) & (with_eyes < alone + 0.5 + 10 * network_s)).all()


def test_what_cannot_be_simulated_is_named_with_what_to_do() -> None:
    both, recipe = unit(executor("chat", 0.5), executor("code", 0.5)), Recipe((PIPELINES,))
    with pytest.raises(ValueError, match=r"no source of the recipe serves eyes/encode.* Simulate the plan with"):
        timeline_of_plan(plan(both, eyes_encode=1.0), recipe, routes(), 100.0)
    one = unit(executor("chat", 0.0))
    with pytest.raises(ValueError, match="one executor does"):
        timeline_of_plan(plan(one, chat_aggregated=1.0, code_aggregated=1.0), recipe, routes(), 100.0)
    with pytest.raises(ValueError, match="route seeing needs eyes/encode"):
        timeline_of_plan(plan(both, chat_aggregated=1.0), recipe, (*routes(), SEEING), 100.0)
    unknown = replace(both, placement=Placement("mesh", 1, {}))
    with pytest.raises(ValueError, match="kind 'mesh'"):
        timeline_of_plan(plan(unknown, chat_aggregated=1.0), recipe, routes(), 100.0)


def test_a_start_without_a_batch_is_refused_as_are_batches_that_cannot_be() -> None:
    one = unit(executor("eyes", 0.0))
    for payload, message in (({"start_ms": 5}, "no batch"), ({"batch": -1}, "batch"), ({"lanes": 0}, "lanes")):
        wrong = replace(one, placement=replace(one.placement, payload=one.placement.payload | payload))
        wrong = replace(wrong, id=as_listed(wrong).template().id)
        with pytest.raises(ValueError, match=message):
            timeline_of_plan(plan(wrong, eyes_encode=1.0), listed(wrong, {"eyes/encode": 1.0}), (SEEING,), 100.0)
