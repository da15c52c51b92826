"""Estimated times and bytes of components: near what is published, growing with the work, memory shared."""

from dataclasses import replace

import numpy as np
import pytest

from templates_lib.cost.component import MOST_TOGETHER, EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.executors.estimate import Estimate, neighbours
from templates_lib.executors.executor_graph import graph_of_options
from templates_lib.executors.option import DeploymentOption
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import Component, ComponentWork, EncoderSpec
from templates_lib.graphs.request_type import GraphRequestType, Lengths, possible_types, request_type
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.gpu import GIB
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.node_config import NodeConfig

STAGES = estimated_cost_model(load_gpus())
COSTS: ComponentCostModel = EstimatedComponentCost(STAGES)
A100, TWO = node_config_from_id("A100-80:1/n100"), node_config_from_id("A100-80:2/n100")
OMNI, INTERN, IMAGE = load_graph("qwen2.5-omni-7b"), load_graph("internvl3-38b"), load_graph("qwen-image")
THINKER = OMNI.component("thinker")
ANSWER = ComponentWork(100, 1, 1000)


def node(gpus: int) -> NodeConfig:
    return node_config_from_id(f"A100-80:{gpus}/n100")


def omni(name: str) -> GraphRequestType:
    return request_type(OMNI, name, possible_types(OMNI)[name], Lengths())


def test_an_a100_encodes_and_denoises_about_as_fast_as_the_paper_measured() -> None:
    """Within a factor of 1.5, for what computes densely: images of 1920 by 1080 are 12 tiles and one of the whole for
    InternVL3 (1.6 images/s follow from the paper's Figure 2); Table 1 has 0.20 images/s of 20 steps, and 15.67
    prompts/s of the text before them."""
    tiles = COSTS.seconds(INTERN.component("vision"), A100, ComponentWork(13 * 256, 13), 1)
    assert 1 / tiles == pytest.approx(1.6, rel=0.5)
    picture = request_type(IMAGE, "t", ("text", "picture"), Lengths())
    assert 1 / COSTS.seconds(IMAGE.component("picture"), A100, picture.work["picture"], 1) == pytest.approx(
        0.2, rel=0.5
    )
    assert 1 / COSTS.seconds(IMAGE.component("text"), A100, picture.work["text"], 1) == pytest.approx(15.67, rel=0.5)


@pytest.mark.parametrize("component", OMNI.components, ids=lambda each: each.name)
def test_more_work_takes_longer_and_requests_together_share(component: Component) -> None:
    work = omni("image-audio-text-to-audio").work[component.name]
    one = COSTS.seconds(component, A100, work, 1)
    twice = replace(work, units=2 * work.units, items=2 * work.items)
    assert one < COSTS.seconds(component, A100, twice, 1) <= 2.5 * one
    assert one < COSTS.seconds(component, A100, work, 4) <= 4 * one
    assert COSTS.seconds(component, TWO, work, 4) < COSTS.seconds(component, A100, work, 4)


def test_attention_grows_with_the_square_of_an_image_but_not_of_many() -> None:
    vision = load_graph("qwen3-omni-30b-a3b").component("vision")
    many = COSTS.seconds(vision, A100, ComponentWork(40_000, 40), 1)
    assert COSTS.seconds(vision, A100, ComponentWork(40_000, 1), 1) > 1.5 * many


def test_a_decoder_takes_what_its_steps_take() -> None:
    model = load_graph("qwen2.5-vl-7b").component("language").spec.model  # type: ignore[union-attr]
    layers, none = np.asarray(float(model.layers)), np.zeros(())
    # Two prompts of a thousand tokens go in one step.
    reads = NodeStep(layers, np.asarray(2000.0), np.asarray(499.5), none, none)
    writes = NodeStep(layers, none, none, np.asarray(8.0), np.asarray(1049.5))
    read, write = (float(STAGES.stage_seconds(model, A100, Parallel(), step, head=True)) for step in (reads, writes))
    together = COSTS.seconds(load_graph("qwen2.5-vl-7b").component("language"), A100, ANSWER, 8)
    assert together == pytest.approx(4 * read + 100 * write)


def test_what_a_decoder_is_deployed_with_comes_off_its_kv_cache() -> None:
    alone = COSTS.most_requests(THINKER, A100, replace(ANSWER, context_tokens=8000), 0.0)
    beside = COSTS.most_requests(THINKER, A100, replace(ANSWER, context_tokens=8000), 20 * GIB)
    cache = 8100 * 28 * 2 * 4 * 128 * 2
    assert alone - beside == pytest.approx(20 * GIB / cache, rel=0.01)
    assert COSTS.most_requests(THINKER, A100, ANSWER, 70 * GIB) == 0
    assert COSTS.most_requests(THINKER, A100, ANSWER, 0.0) == MOST_TOGETHER


def test_held_bytes_are_weights_and_what_a_request_needs() -> None:
    vision = OMNI.component("vision")
    held = [COSTS.held_bytes(vision, A100, ComponentWork(units, 1)) for units in (100, 10_000)]
    assert vision.weight_bytes < held[0] < 1.02 * vision.weight_bytes
    assert held[1] > 1.2 * vision.weight_bytes
    assert COSTS.held_bytes(vision, TWO, ComponentWork(100, 1)) < 0.51 * held[0]


def test_options_take_the_fewest_gpus_that_hold_them() -> None:
    types = [omni("text-to-text"), omni("image-audio-text-to-audio")]
    kinds = [replace(each, share=0.5) for each in types]
    estimate = Estimate(OMNI, kinds, node, COSTS)
    wanted = neighbours(OMNI, [each.components for each in kinds])
    options, refused = estimate.options(wanted)
    assert not refused
    assert len(options) == 15  # runs of five components
    assert {option.gpus for option in options} == {1}
    small = Estimate(OMNI, kinds, lambda gpus: node_config_from_id(f"T4:{gpus}/n50"), COSTS)
    held, _ = small.options([("vision",), ("thinker",)])
    assert [option.gpus for option in held] == [1, 2]
    qwen3 = load_graph("qwen3-omni-30b-a3b")
    kind = request_type(qwen3, "t", ("thinker",), Lengths())
    crowded = Estimate(qwen3, [kind], lambda gpus: node_config_from_id(f"T4:{min(gpus, 2)}/n50"), COSTS)
    assert set(crowded.options([("thinker",)])[1]) == {"thinker"}


def test_visits_take_the_sum_of_their_components() -> None:
    kind = omni("text-to-audio")
    estimate = Estimate(OMNI, [kind], node, COSTS)
    speaks, thinks = DeploymentOption(("talker", "vocoder")), DeploymentOption(("thinker",))
    executors = graph_of_options(OMNI, [kind], [thinks, speaks])
    ((_, seconds),) = estimate.seconds(executors).items()
    apart = [estimate.request_seconds(speaks, name, kind) for name in ("talker", "vocoder")]
    assert seconds[1] == pytest.approx(sum(apart))
    assert all(each > 0 for each in seconds)


def test_decoders_that_run_together_share_what_is_left_for_caches() -> None:
    kind = omni("text-to-audio")
    estimate = Estimate(OMNI, [kind], lambda gpus: node_config_from_id(f"L4:{gpus}/n50"), COSTS)
    alone, both = DeploymentOption(("thinker",)), DeploymentOption(("thinker", "talker"))
    assert estimate.request_seconds(both, "thinker", kind) > 1.2 * estimate.request_seconds(alone, "thinker", kind)


def test_the_fingerprint_is_that_of_what_times_depend_on() -> None:
    assert COSTS.source == "estimated"
    assert COSTS.fingerprint == EstimatedComponentCost(estimated_cost_model(load_gpus())).fingerprint
    assert COSTS.fingerprint != EstimatedComponentCost(estimated_cost_model(load_gpus(), "sglang")).fingerprint
    with pytest.raises(ValueError, match="X100"):
        COSTS.seconds(OMNI.component("vision"), replace(A100, gpu="X100"), ComponentWork(1), 1)
    assert isinstance(OMNI.component("vision").spec, EncoderSpec)
