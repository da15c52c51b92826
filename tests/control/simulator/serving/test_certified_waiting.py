"""Templates that are certified with waiting keep their objectives in simulation, at what they are certified for."""

from dataclasses import replace

import numpy as np
import pytest

from bench.text_tables import DECODE, PREFILL, WHOLE, life_member, text_model
from control.simulator.report.fate import judge
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from control.timing.template_model import TemplateModels
from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.sources.pipeline_record import read_record
from templates_lib.sources.pipeline_source import PipelineTemplateSource
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.slo import Slo
from templates_lib.values.template import ServingTemplate
from templates_lib.values.work import Phase

LENGTH_S, WARM_UP_S = 900.0, 60.0
UNREFUSED = ServingSettings(admits=False)
"""At all of its capacity, admission refuses what would wait."""
TOLERANCE = 0.006
"""Of the share of requests that are in time, at all of T̂; plans use `utilisation_cap` of it."""
SLO = Slo(1200, 60, queueing=True)
SERVED = ServedModel("phi", load_models()["phi-4-14b"], SLO, load_shape("azure-conversation"), aggregated=True)
GPUS = load_gpus()
COSTS = estimated_cost_model(GPUS)


def node(gpu: str, count: int) -> NodeConfig:
    return NodeConfig(config_id(gpu, count, 100), gpu, count, 256, 100, 200)


def certified(config: NodeConfig, served: ServedModel = SERVED) -> dict[Phase, tuple[ServingTemplate, float]]:
    """By phase: the template of one such node, and its units/s."""
    bags = [frozenset({config.id})]
    source = PipelineTemplateSource((served,), (config,), GPUS, {"vllm-stage": COSTS}, n_max=1, rho=50, zone_bags=bags)
    found = {}
    for batch in source.build(source.units(), lambda *_: None):
        for record, units in zip(batch.records, batch.entry_units_per_s.tolist(), strict=True):
            template = read_record(record, {config.id: 1})[0]
            found[Phase(batch.unit.partition("/")[2])] = template, units
    return found


def in_time(config: NodeConfig, legs: dict[str, Phase], served: ServedModel = SERVED) -> tuple[float, float]:
    """Shares of requests whose first token, and whose others, are in time, on enough instances of each leg for the
    requests of two of the first, at the most that they are certified for; where prefill is apart, on three times as
    many of it: how much of it keeps an objective is for plans to find out (`control.planning.promise`)."""
    found, shape = certified(config, served), served.shape
    models = TemplateModels(served.model, {config.id: config}, COSTS)
    per_request = {PREFILL: shape.mean_prompt_tokens, DECODE: shape.mean_output_tokens, WHOLE: 1.0}
    most = {leg: found[phase][1] / per_request[leg] for leg, phase in legs.items()}
    counts = {leg: max(2, int(2 * next(iter(most.values())) / most[leg])) for leg in legs}
    requests_per_s = min(counts[leg] * most[leg] for leg in legs)
    counts |= {leg: 3 * count for leg, count in counts.items() if leg == PREFILL}
    lives = tuple(
        InstanceLife(f"{leg}{n}", "phi", leg, "z", models.pipeline(found[phase][0]))
        for leg, phase in legs.items() for n in range(counts[leg])
    )  # fmt: skip
    table = text_model("phi", map(life_member, lives))
    fleet = FleetTimeline(lives, ((0.0, (table,)),), LENGTH_S + 120, {"phi": shape.mean_output_tokens})
    draw = np.random.default_rng(11)
    arrival_s = np.sort(draw.uniform(0, LENGTH_S, draw.poisson(requests_per_s * LENGTH_S)))
    pick = draw.integers(len(shape.prompt_tokens), size=len(arrival_s))
    lengths = shape.prompt_tokens[pick], shape.output_tokens[pick]
    requests = Requests(("phi",), np.zeros(len(pick), np.int64), arrival_s, *lengths)
    judged = judge(requests, simulate(requests, fleet, UNREFUSED), {"phi": served.slo}, fleet.length_s)
    counted = arrival_s >= WARM_UP_S
    first = judged.ttft_ms[counted] <= served.slo.ttft_ms
    others = (judged.tpot_ms[counted] <= served.slo.tpot_ms) | (requests.output_tokens[counted] == 1)
    return float(first.mean()), float(others.mean())


@pytest.mark.parametrize(("gpu", "count"), [("L40S", 2), ("L40S", 4), ("H100", 1)])
def test_decode_keeps_the_objective_at_what_it_is_certified_for(gpu: str, count: int) -> None:
    first, others = in_time(node(gpu, count), {PREFILL: Phase.PREFILL, DECODE: Phase.DECODE})
    assert first >= 0.99 - TOLERANCE
    assert others >= 0.99 - TOLERANCE


@pytest.mark.parametrize(("gpu", "count"), [("L40S", 2), ("H100", 1)])
def test_both_on_one_instance_keep_the_objective_at_what_it_is_certified_for(gpu: str, count: int) -> None:
    first, others = in_time(node(gpu, count), {WHOLE: Phase.AGGREGATED})
    assert first >= 0.99 - TOLERANCE
    assert others >= 0.99 - TOLERANCE


def test_without_waiting_it_does_not() -> None:
    plain = replace(SERVED, slo=replace(SLO, queueing=False))
    _, others = in_time(node("L40S", 2), {PREFILL: Phase.PREFILL, DECODE: Phase.DECODE}, plain)
    assert others < 0.98
