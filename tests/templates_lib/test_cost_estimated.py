"""The estimated cost model is monotone, honest about what it knows, and reads physics the right way round."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.estimated import EstimatedCostModel, estimated_cost_model
from templates_lib.models.catalogue import load_models, measured_configs
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.engines import support_of
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
GPUS = load_gpus()
MODELS = load_models() | {
    name: model_from_hf_config(measured_configs()[name], name, "")
    for name in ("deepseek-ai/DeepSeek-V3", "Qwen/Qwen3.5-397B-A17B", "zhipuai/GLM-5")
}
FIELDS = ("layers", "prompt_tokens", "prompt_context", "decode_requests", "decode_context")


def node(gpu: str, count: int, network: float = 100.0) -> NodeConfig:
    return NodeConfig(f"{gpu}:{count}", gpu, count, 256.0 if gpu.startswith("L4") else 2400.0, network, 512.0)


def seconds(model: str, gpu: str, parallel: Parallel, head: bool = False, engine: str = "vllm", **work: float) -> float:
    step = NodeStep(**{f: np.array(work.get(f, 0.0), dtype=np.float64) for f in FIELDS})
    count = parallel.tp * parallel.dp * parallel.pp
    return float(
        estimated_cost_model(GPUS, engine).stage_seconds(MODELS[model], node(gpu, count), parallel, step, head=head)
    )


def layer_weight_bytes(model: ModelSpec) -> float:
    return model.attention_weight_bytes + max(model.ffn_weight_bytes, model.dense_ffn_weight_bytes)


@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_decode_of_one_request_is_bound_by_reading_the_weights(gpu: str) -> None:
    model = MODELS["qwen3-32b"]
    own = seconds("qwen3-32b", gpu, Parallel(), layers=64, decode_requests=1, decode_context=100)
    read = 64 * layer_weight_bytes(model) / GPUS[gpu].hbm_bytes_per_s
    assert read * 0.9 < own < read * 2


@pytest.mark.parametrize(("requests", "kind"), [(64, "few_rows"), (256, "many_rows")])
def test_an_engine_that_unpacks_weights_takes_as_long_as_its_memory_for_it(
    monkeypatch: pytest.MonkeyPatch, requests: int, kind: str
) -> None:
    work = {"layers": 24, "decode_requests": requests, "decode_context": 100}
    unpacking = support_of("torch").unpacked["mxfp4"]

    def own() -> float:
        return seconds("gpt-oss-20b", "H100", Parallel(), engine="torch", **work)

    slower = own()
    without = replace(support_of("torch"), unpacked={})
    monkeypatch.setattr("templates_lib.cost.estimated.support_of", lambda _engine: without)
    experts = 24 * 32 * 3 * 2880 * 2880  # nearly all are visited
    moved = getattr(unpacking, kind) * experts / GPUS["H100"].hbm_bytes_per_s
    moved *= load_coefficients().engine("torch").kernel_scale
    assert slower - own() == pytest.approx(moved, rel=0.1)


@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_long_prefill_never_beats_the_data_sheet(gpu: str) -> None:
    own = seconds("llama-3-70b", gpu, Parallel(), layers=80, prompt_tokens=8192, prompt_context=4096)
    products = 80 * layer_weight_bytes(MODELS["llama-3-70b"]) / 2
    assert own > 2 * products * 8192 / (GPUS[gpu].peak_bf16_tflops * 1e12)


def test_windows_cap_what_long_contexts_cost() -> None:
    short, far = (
        seconds("gpt-oss-20b", "H100", Parallel(), layers=n, decode_requests=64, decode_context=c)
        - seconds("gpt-oss-20b", "H100", Parallel(), layers=n, decode_requests=64, decode_context=128)
        for n, c in ((1, 16384), (2, 16384))
    )
    assert far == pytest.approx(short, rel=1e-6)  # of two neighbours only one sees past its window


def test_a_batch_touches_more_experts_than_a_single_request() -> None:
    one, many = (
        seconds("qwen3-235b-a22b", "H200", Parallel(tp=8), layers=94, decode_requests=b, decode_context=500)
        for b in (1, 64)
    )
    assert many > 2 * one


def test_eight_cards_over_pcie_reduce_far_slower_than_over_nvlink() -> None:
    def reduction_share(gpu: str) -> float:
        work = {"layers": 64, "prompt_tokens": 4096, "prompt_context": 2048}
        alone = seconds("qwen3-32b", gpu, Parallel(), **work) / 8
        return seconds("qwen3-32b", gpu, Parallel(tp=8), **work) / alone

    assert reduction_share("L40S") > 3 * reduction_share("H100")


def test_a_card_without_fp8_gains_memory_not_compute() -> None:
    fp8 = model_from_hf_config(
        {**measured_configs()["Qwen/Qwen3-32B"], "quantization_config": {"quant_method": "fp8"}}, "fp8", ""
    )
    cost_model, place = estimated_cost_model(GPUS), node("A100-80", 1)

    def time(model: str, **work: float) -> float:
        step = NodeStep(**{f: np.array(work.get(f, 0.0)) for f in FIELDS})
        spec = fp8 if model == "fp8" else MODELS["qwen3-32b"]
        return float(cost_model.stage_seconds(spec, place, Parallel(), step, head=False))

    decode = {"layers": 64.0, "decode_requests": 1.0, "decode_context": 100.0}
    prefill = {"layers": 64.0, "prompt_tokens": 8192.0, "prompt_context": 4096.0}
    assert time("fp8", **decode) < 0.8 * time("bf16", **decode)
    assert time("fp8", **prefill) > time("bf16", **prefill)


def test_hop_needs_a_network() -> None:
    cost_model, tokens = estimated_cost_model(GPUS), np.array([1.0, 1000.0])
    model = MODELS["qwen3-32b"]
    fast, slow = (cost_model.hop_seconds(model, node("L4", 1, g), tokens) for g in (100.0, 10.0))
    assert (fast < slow).all()
    assert slow[1] > 1000 * model.hidden_size * 2 / (10e9 / 8)
    assert np.isinf(cost_model.hop_seconds(model, node("L4", 1, 0.0), tokens)).all()


def test_fingerprint_follows_engine_cards_and_coefficients() -> None:
    coefficients = load_coefficients()
    other = replace(coefficients, date="2000-01-01")
    faster = {**GPUS, "H100": replace(GPUS["H100"], hbm_gbps=1.0)}
    models = [
        EstimatedCostModel(GPUS, "vllm", coefficients),
        EstimatedCostModel(GPUS, "torch", coefficients),
        EstimatedCostModel(faster, "vllm", coefficients),
        EstimatedCostModel(GPUS, "vllm", other),
    ]
    assert len({m.fingerprint for m in models}) == 4
    assert models[0].fingerprint == estimated_cost_model(GPUS).fingerprint
    assert models[0].source == "estimated"


def test_unmeasured_cards_say_so_and_unknown_names_are_hinted() -> None:
    cost_model = estimated_cost_model(GPUS)
    assert "not measured" in cost_model.evidence("MI300X")
    assert "not measured" in cost_model.evidence("A10G")
    assert cost_model.evidence("H100").startswith("measured")
    with pytest.raises(ValueError, match="vllm"):
        estimated_cost_model(GPUS, "vlm")
    only = estimated_cost_model({"H100": GPUS["H100"]})
    step = NodeStep(*(np.ones(()) for _ in FIELDS))
    with pytest.raises(ValueError, match=r"H200.*H100"):
        only.stage_seconds(MODELS["qwen3-32b"], node("H200", 1), Parallel(), step, head=False)


def test_no_coefficient_knows_a_model() -> None:
    text = repr(load_coefficients().gpus) + repr(load_coefficients().engines) + repr(load_coefficients().serving)
    data = [w for w in text.replace("'", " ").split() if w.lower() in {n.lower() for n in MODELS}]
    assert data == []
