"""Tables say what the cost models say, over all that a step may hold."""

import numpy as np
import pytest

from bench.stepping.clocks import seconds_of
from control.timing.step_table import StepTable, step_table
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.cost.step_terms import step_terms
from templates_lib.models.catalogue import load_models
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Floats, NodeStep, Parallel, StageCostModel
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile, ProfileErrors

BAR = 0.005
ESTIMATED = estimated_cost_model(load_gpus())


def random_steps(layers: int, count: int = 300) -> NodeStep:
    dice = np.random.default_rng(7)
    prompts = np.round(2 ** dice.uniform(0, 14, count)) * (dice.random(count) < 0.6)
    requests = np.round(2 ** dice.uniform(0, 10, count)) * ((dice.random(count) < 0.6) | (prompts == 0))
    contexts = [2 ** dice.uniform(0, 17, count) for _ in range(2)]
    return NodeStep(np.full(count, float(layers)), prompts, contexts[0] - 1, requests, contexts[1])


def of_table(table: StepTable, step: NodeStep) -> Floats:
    per_replica = [np.maximum(n / table.replicas, np.minimum(n, 1)) for n in (step.prompt_tokens, step.decode_requests)]
    sampled = table.replicas * (per_replica[1] + np.minimum(per_replica[0], 1))
    columns = (step.prompt_tokens, step.prompt_context, step.decode_requests, step.decode_context, sampled)
    each = zip(*columns, strict=True)
    return np.array([sum(seconds_of(table, *one)) for one in each])


def worst_error(
    cost_model: StageCostModel, model: ModelSpec, node: NodeConfig, parallel: Parallel, layers: int, *, head: bool
) -> float:
    table = step_table(cost_model, model, node, parallel, layers, head=head)
    step = random_steps(layers)
    right = cost_model.stage_seconds(model, node, parallel, step, head=head)
    return float(np.abs(of_table(table, step) / right - 1).max())


@pytest.mark.parametrize("model", ["gpt-oss-120b", "llama-3-70b", "qwen3-235b-a22b"])
@pytest.mark.parametrize(
    ("config", "parallel"),
    [("L40S:8/n100", Parallel(8)), ("H100:8/n200", Parallel(4, 2, 1, 8)), ("L4:4/n10", Parallel(1, 2, 2))],
)
def test_tables_of_the_estimate_are_right(model: str, config: str, parallel: Parallel) -> None:
    spec, node = load_models()[model], node_config_from_id(config)
    for layers, head in ((4, False), (spec.layers, True)):
        assert worst_error(ESTIMATED, spec, node, parallel, layers, head=head) < BAR


def test_tables_of_a_measured_profile_are_right() -> None:
    spec, node = load_models()["llama-3-70b"], node_config_from_id("L4:1/n10")
    terms = step_terms(random_steps(4, 1), head=True)
    profile = NodeProfile(
        "a hash",
        "2026-01-01T00:00:00Z",
        "a machine",
        "vllm",
        spec.id,
        spec.dtype,
        node.id,
        0.5,
        {name: 1e-4 / (1 + place) ** 2 for place, name in enumerate(terms)},
        ProfileErrors(10, 0.01, 0.02),
        PipelineCost(1e-3, 1e-5, 2e-5, 5e-4, 1e-3, 0.01),
        HandOffCost(1e-9, 1e-9),
    )
    measured = MeasuredCostModel("vllm", [profile], ESTIMATED)
    for layers, head in ((4, False), (20, True)):
        assert worst_error(measured, spec, node, Parallel(), layers, head=head) < BAR
