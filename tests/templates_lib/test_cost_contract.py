"""What every cost model keeps, whatever its times come from: the contract of `StageCostModel`."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.estimated import EstimatedCostModel, estimated_cost_model
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.kernel_based import KernelCostModel, kernel_cost_model
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.cost.step_terms import step_terms
from templates_lib.models.catalogue import load_models, measured_configs
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.ports.cost_model import WHOLE_GPU, GpuPart, NodeStep, Parallel, StageCostModel
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile, ProfileErrors

GPUS = load_gpus()
MODELS = load_models() | {
    name: model_from_hf_config(measured_configs()[name], name, "")
    for name in ("deepseek-ai/DeepSeek-V3", "Qwen/Qwen3.5-397B-A17B", "zhipuai/GLM-5")
}
SPLITS = (
    Parallel(),
    Parallel(tp=8),
    Parallel(tp=4, pp=2),
    Parallel(tp=2, dp=4),
    Parallel(tp=2, dp=4, ep=8),
    Parallel(tp=8, ep=8),
    Parallel(dp=8, ep=8),
)
ENGINES = sorted(load_coefficients().engines)
FIELDS = ("layers", "prompt_tokens", "prompt_context", "decode_requests", "decode_context")


def profiled(engine: str) -> MeasuredCostModel:
    """Every model is measured on one, two and eight GPUs of each kind."""
    seconds = dict.fromkeys(step_terms(NodeStep(*[np.array(1.0)] * 5), head=True), 1e-4)
    pipeline = PipelineCost(1e-3, 1e-6, 1e-5, 5e-4, 1e-4, 0.02)
    profiles = [
        NodeProfile(
            "s", "2026-11-26", "a machine", engine, model.id, model.dtype, f"{gpu}:{count}", cpu_cores=2.0,
            step_terms_s=seconds, errors=ProfileErrors(1, 0, 0), pipeline=pipeline, hand_off=HandOffCost(2e-9, 1e-9),
            device="cuda", tensor_parallel=count,
        )
        for model in MODELS.values()
        for gpu in GPUS
        for count in (1, 2, 8)
    ]  # fmt: skip
    return MeasuredCostModel(engine, profiles, estimated_cost_model(GPUS, engine))


SOURCES: dict[str, Callable[[str], StageCostModel]] = {
    "estimated": lambda engine: estimated_cost_model(GPUS, engine),
    "kernels": lambda engine: KERNELS.setdefault(engine, kernel_cost_model(GPUS, engine)),
    "measured": profiled,
}
KERNELS: dict[str, KernelCostModel] = {}
"""Tables are read once."""
each_source = pytest.mark.parametrize(
    "source", ["estimated", "measured", pytest.param("kernels", marks=pytest.mark.needs("kernels"))]
)


def node(gpu: str, count: int, network: float = 100.0) -> NodeConfig:
    return NodeConfig(f"{gpu}:{count}", gpu, count, 256.0 if gpu.startswith("L4") else 2400.0, network, 512.0)


def offered(cost_model: StageCostModel, model: str, place: NodeConfig, parallel: Parallel) -> bool:
    """Only the kernel-based model has times of some models and GPUs alone."""
    return not isinstance(cost_model, KernelCostModel) or not cost_model.missing(MODELS[model], place, parallel)


@each_source
@settings(max_examples=200, deadline=None)
@given(
    model=st.sampled_from(sorted(MODELS)),
    gpu=st.sampled_from(sorted(GPUS)),
    parallel=st.sampled_from(SPLITS),
    engine=st.sampled_from(ENGINES),
    head=st.booleans(),
    start=st.tuples(st.integers(1, 40), *(st.floats(0, 20000) for _ in FIELDS[1:])),
    field=st.integers(0, len(FIELDS) - 1),
    more=st.floats(0, 5000),
)
def test_more_work_never_takes_less_time(
    source: str,
    model: str,
    gpu: str,
    parallel: Parallel,
    engine: str,
    head: bool,
    start: tuple[float, ...],
    field: int,
    more: float,
) -> None:
    if source == "kernels":
        engine, gpu = "vllm", gpu if gpu in ("H100", "B200") else "L40S"  # reading all tables takes seconds
    cost_model = SOURCES[source](engine)
    place = node(gpu, parallel.tp * parallel.dp * parallel.pp)
    assume(offered(cost_model, model, place, parallel))
    layers = min(start[0], MODELS[model].layers)
    low = dict(zip(FIELDS, (layers, *start[1:]), strict=True))
    high = dict(low)
    high[FIELDS[field]] += more
    high["layers"] = min(float(int(high["layers"])), MODELS[model].layers)
    before, after = (
        float(
            cost_model.stage_seconds(
                MODELS[model], place, parallel, NodeStep(**{f: np.array(float(work[f])) for f in FIELDS}), head=head
            )
        )
        for work in (low, high)
    )
    assert 0 <= before <= after * (1 + 1e-9)
    assert np.isfinite(after)


@each_source
@settings(max_examples=100, deadline=None)
@given(
    model=st.sampled_from(sorted(MODELS)),
    gpu=st.sampled_from(sorted(GPUS)),
    work=st.tuples(st.integers(1, 40), *(st.floats(0, 20000) for _ in FIELDS[1:])),
    part=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)),
    less=st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)),
)
def test_a_smaller_part_of_a_gpu_never_takes_less_time(
    source: str, model: str, gpu: str, work: tuple[float, ...], part: tuple[float, float], less: tuple[float, float]
) -> None:
    gpu = "L40S" if source == "kernels" else gpu
    cost_model, place = SOURCES[source]("vllm"), node(gpu, 1)
    assume(offered(cost_model, model, place, Parallel()))
    step = NodeStep(
        *(np.array(float(min(each, MODELS[model].layers) if i == 0 else each)) for i, each in enumerate(work))
    )
    parts = [WHOLE_GPU, GpuPart(*part), GpuPart(part[0] * less[0], part[1] * less[1])]
    whole, partly, smaller = (
        float(cost_model.stage_seconds(MODELS[model], place, Parallel(), step, head=True, part=each)) for each in parts
    )
    assert whole <= partly * (1 + 1e-9)
    assert partly <= smaller * (1 + 1e-9)
    assert np.isfinite(smaller)


@each_source
@pytest.mark.parametrize("model", sorted(MODELS))
def test_head_costs_something_and_arrays_broadcast(source: str, model: str) -> None:
    cost_model, parallel = SOURCES[source]("vllm"), Parallel(tp=8)
    if not offered(cost_model, model, node("H100", 8), parallel):
        with pytest.raises(LookupError, match="H100:8"):
            cost_model.stage_seconds(MODELS[model], node("H100", 8), parallel, NodeStep(*[np.ones(())] * 5), head=True)
        return
    layers, batch, none = np.arange(1.0, 20.0)[:, None], np.arange(1.0, 9.0), np.zeros(())
    step = NodeStep(layers, none, none, batch, none + 1000)
    bare = cost_model.stage_seconds(MODELS[model], node("H100", 8), parallel, step, head=False)
    full = cost_model.stage_seconds(MODELS[model], node("H100", 8), parallel, step, head=True)
    assert bare.shape == full.shape == (19, 8)
    assert (full > bare).all()
    one = NodeStep(np.array(7.0), none, none, np.array(3.0), none + 1000)
    alone = cost_model.stage_seconds(MODELS[model], node("H100", 8), parallel, one, head=False)
    assert bare[6, 2] == pytest.approx(float(alone))


@each_source
def test_hops_need_a_network_and_take_longer_for_more(source: str) -> None:
    cost_model, tokens = SOURCES[source]("vllm"), np.array([1.0, 1000.0])
    joined = cost_model.hop_seconds(MODELS["qwen3-32b"], node("L4", 1), tokens)
    assert 0 < joined[0] <= joined[1] < np.inf
    assert cost_model.transfer_bytes_per_s(MODELS["qwen3-32b"], node("H100", 8)) > 0
    assert cost_model.transfer_bytes_per_s(MODELS["qwen3-32b"], node("H100", 8, 0.0)) == 0


@each_source
def test_fingerprints_tell_sources_engines_and_cards_apart(source: str) -> None:
    ours = SOURCES[source]("vllm").fingerprint
    assert ours == SOURCES[source]("vllm").fingerprint
    assert ours != SOURCES[source]("torch").fingerprint
    assert (ours == EstimatedCostModel(GPUS, "vllm", load_coefficients()).fingerprint) == (source == "estimated")
