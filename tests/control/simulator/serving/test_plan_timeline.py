"""A plan becomes a fleet whose instances run its placements, behind the routers that would serve it."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from control.planning.recipe import PipelineRecipe, Recipe
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome
from control.simulator.serving.simulate import simulate
from policies.routing_table import ZoneFlow
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.catalogue import load_models
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market
from templates_lib.values.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.values.plan import Flow, Plan, PlannedInstance
from templates_lib.values.settings import SloSplit
from templates_lib.values.slo import Slo
from templates_lib.values.template import Software

CONFIG = node_config_from_id("L4:1/n10")
MODEL = load_models()["phi-4-14b"]
SHAPE = WorkloadShape("s", np.array([200, 400], np.int32), np.array([50, 150], np.int32))
SERVED = ServedModel("chat", MODEL, Slo(1000.0, 100.0), SHAPE)
PIPELINES = PipelineRecipe((SERVED,), (CONFIG,), ((CONFIG.id,),), 2, 12.0, SloSplit.EVEN)
RECIPE = Recipe((PIPELINES,))
SOFTWARE = Software(MODEL.id, MODEL.revision, MODEL.dtype, "vllm", "lockstep-v1")


def planned(phase: str, zone: str, count: int, units_per_s: float) -> PlannedInstance:
    half = MODEL.layers // 2
    caps = (0, 2048) if phase == "prefill" else (16, 0)
    nodes = (StageNodes(CONFIG.id, 1, 1.0, 1, 1, 1, 1, *caps, kv_blocks=400),)
    stages = (Stage(0, half, True, False, nodes), Stage(half, MODEL.layers - half, False, True, nodes))
    placement = Placement("pipeline", 1, msgspec.to_builtins(PipelinePlacement(stages)))
    return PlannedInstance(
        f"{phase} template", "chat", phase, zone, Market.ON_DEMAND, count, 0, {CONFIG.id: 2},
        {f"chat/{phase}": units_per_s}, 3.0 * count, placement, SOFTWARE,
    )  # fmt: skip


def plan_of(*flows: Flow) -> Plan:
    instances = (
        planned("prefill", "z1", 2, 600.0),
        planned("decode", "z1", 1, 100.0),
        planned("decode", "z2", 3, 100.0),
    )
    return Plan(
        "p", "s", "l", "medley", instances, (), flows, 12.0, 12.0, 0.0, 0.0, 0.0, {}, 12.0, 12.0, 0.0, 0.1, "optimal"
    )


def test_every_planned_instance_is_there_with_its_capacity_and_price() -> None:
    fleet = timeline_of_plan(
        plan_of(Flow("chat/disaggregated", ("z1", "z2"), 2.0, 0.0)), RECIPE, SERVED.routes(), 100.0
    )
    legs = [(life.leg, life.zone) for life in fleet.instances]
    assert sorted(legs) == [("decode", "z1")] + [("decode", "z2")] * 3 + [("prefill", "z1")] * 2
    assert {life.usd_per_hour for life in fleet.instances} == {3.0}
    assert len({id(life.station) for life in fleet.instances}) == 2
    ((at_s, (model,)),) = fleet.tables
    assert at_s == 0
    rates = sorted(rate for member in model.members for rate in member.units_per_s.items())
    assert rates == [("chat/decode", 100.0)] * 4 + [("chat/prefill", 600.0)] * 2
    assert model.routes[0].flows == (ZoneFlow(("z1", "z2"), 2.0),)


def test_flows_without_zones_are_spread_over_what_runs_where() -> None:
    fleet = timeline_of_plan(plan_of(Flow("chat/disaggregated", ("", ""), 2.0, 0.0)), RECIPE, SERVED.routes(), 100.0)
    ((_, (model,)),) = fleet.tables
    assert model.routes[0].flows == (ZoneFlow(("z1", "z1"), 0.5), ZoneFlow(("z1", "z2"), 1.5))


def test_requests_are_served_over_two_legs() -> None:
    fleet = timeline_of_plan(plan_of(Flow("chat/disaggregated", ("", ""), 2.0, 0.0)), RECIPE, SERVED.routes(), 200.0)
    requests = Requests(("chat",), np.zeros(40), np.arange(40) * 0.5, np.full(40, 300), np.full(40, 60))
    served = simulate(requests, fleet)
    assert (served.outcome == Outcome.SERVED).all()
    assert (served.first_token_s > requests.arrival_s).all()
    assert (served.accepted_s >= requests.arrival_s).all(), "while the prompt is computed"
    assert (served.handed_s > served.accepted_s).all()
    assert (served.finish_s > served.handed_s).all()
    counts = np.bincount(served.last_instance, minlength=len(fleet.instances))
    assert sorted(counts[counts > 0].tolist()) == [10, 10, 10, 10]


def test_a_plan_that_does_not_say_what_runs_is_refused() -> None:
    plan = plan_of()
    bare = replace(plan, instances=tuple(replace(each, placement=None) for each in plan.instances))
    with pytest.raises(ValueError, match="does not say what template"):
        timeline_of_plan(bare, RECIPE, SERVED.routes(), 100.0)
    with pytest.raises(ValueError, match="not among the configurations"):
        timeline_of_plan(plan, Recipe((replace(PIPELINES, nodes=()),)), SERVED.routes(), 100.0)
