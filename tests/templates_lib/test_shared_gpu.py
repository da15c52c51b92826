"""Parts of GPUs: what they compute and read, and what a step on one cannot beat."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.shared_gpu import load_shared_gpu, part_of, reach
from templates_lib.models.catalogue import load_models
from templates_lib.ports.cost_model import GpuPart, NodeStep, Parallel
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

GPUS = load_gpus()
MODEL = load_models()["qwen3-32b"]
PLACE = NodeConfig("H100:1", "H100", 1, 2400.0, 0.0, 256.0)


def decode_seconds(requests: float, context: float, part: GpuPart) -> float:
    none, layers = np.zeros(()), np.array(float(MODEL.layers))
    step = NodeStep(layers, none, none, np.array(requests), np.array(context))
    return float(estimated_cost_model(GPUS).stage_seconds(MODEL, PLACE, Parallel(), step, head=True, part=part))


@given(st.floats(0.01, 0.99), st.floats(0.0, 10.0))
def test_a_share_does_no_less_than_itself_and_no_more_than_all(share: float, half: float) -> None:
    assert share < reach(share, half) <= 1
    assert reach(1.0, half) == 1
    assert reach(share, half) <= reach(share * 1.01, half) + 1e-12


def test_the_shipped_curves_are_of_measured_steps() -> None:
    shared = load_shared_gpu()
    assert shared.rows > 5000
    assert shared.error < 0.05
    assert shared.bandwidth(0.3) > shared.compute(0.3)  # decoding needs few processors (MuxServe, Figure 3)


@settings(max_examples=100, deadline=None)
@given(st.floats(1, 256), st.floats(1, 8000), st.floats(0.01, 1), st.floats(0.05, 1))
def test_no_step_reads_faster_than_the_bandwidth_that_it_has(
    requests: float, context: float, compute: float, bandwidth: float
) -> None:
    layers = MODEL.layers
    read = layers * (MODEL.attention_weight_bytes + MODEL.ffn_weight_bytes) + MODEL.head_weight_bytes
    read += requests * context * layers * MODEL.kv_bytes_per_token_per_layer
    seconds = decode_seconds(requests, context, GpuPart(compute, bandwidth))
    assert seconds >= read / (GPUS["H100"].hbm_bytes_per_s * bandwidth)


def test_a_tenth_of_the_processors_slows_a_prompt_more_than_decoding() -> None:
    none, layers = np.zeros(()), np.array(float(MODEL.layers))
    prompt = NodeStep(layers, np.array(4096.0), np.array(2048.0), none, none)
    model, part = estimated_cost_model(GPUS), GpuPart(0.1)
    whole, tenth = (
        float(model.stage_seconds(MODEL, PLACE, Parallel(), prompt, head=True, part=each)) for each in (GpuPart(), part)
    )
    assert tenth / whole > 5
    assert decode_seconds(1, 512, part) / decode_seconds(1, 512, GpuPart()) < 2


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.01, float("nan")])
def test_parts_are_more_than_nothing_and_at_most_everything(wrong: float) -> None:
    with pytest.raises(ValueError, match="compute"):
        GpuPart(wrong)
    with pytest.raises(ValueError, match="bandwidth"):
        GpuPart(1.0, wrong)


def test_a_part_is_a_smaller_gpu_of_the_same_memory() -> None:
    half = part_of(GPUS["H100"], GpuPart(0.5, 0.5))
    assert half.memory_gib == GPUS["H100"].memory_gib
    assert 0.5 < half.peak_bf16_tflops / GPUS["H100"].peak_bf16_tflops < 1
    assert half.peak_fp8_tflops / GPUS["H100"].peak_fp8_tflops == pytest.approx(
        half.peak_bf16_tflops / GPUS["H100"].peak_bf16_tflops
    )
    assert half.hbm_gbps <= GPUS["H100"].hbm_gbps * 0.5
