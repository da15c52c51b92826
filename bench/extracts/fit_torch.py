"""Fits what the torch engine adds to the kernels, from steps that a GPU measured.

    PYTHONPATH=. python bench/extracts/fit_torch.py

Steps: `python -m bench.gpu_profile --rows`; with `--read` it prints how far the fit is off. Writes `engines.torch` of
estimated_coefficients.json: what an engine adds to the kernels, and scheduler and workers beside it (`agents.profile
pipeline`); where whole servers of vLLM took longer than all that, their time, since of ours none was measured on a GPU.
So it has numbers that a dense model on one GPU cannot show (experts, latent attention, waits for peers).
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Coefficients, EngineOverhead, LayerOverhead, load_coefficients
from templates_lib.cost.estimated import EstimatedCostModel
from templates_lib.cost.fit import non_negative_least_squares
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.hardware import gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.profile_row import ProfileRow

Floats = NDArray[np.float64]
GPU, DATE = "H100", "2026-11-27"
ROWS = Path(__file__).with_name("torch_h100_steps.jsonl")
OUT = Path(__file__).resolve().parents[2] / "templates_lib" / "data" / "perf" / "estimated_coefficients.json"
STEP_CPU_S, REQUEST_CPU_S = 1.4e-3, 4.2e-5
"""Of scheduler and worker for a step, and for each token of it: `agents.profile pipeline` on a processor of a shared
machine, 2026-11-27. They overlap with the GPU where requests are cut into groups; here they do not."""
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
"""Llama 3 8B's, which `bench.gpu_profile` runs with random weights."""


@dataclass(frozen=True)
class Fit:
    """What the engine adds to the kernels of a GPU."""

    alone: EngineOverhead
    """Of the engine's own steps, as a GPU measures them."""
    planned: EngineOverhead
    """With scheduler and workers, and what servers of vLLM take where that is more: what plans have."""


def fit_torch(coefficients: Coefficients, rows: list[ProfileRow]) -> Fit:
    """Non-negative least squares of relative errors, on the rows of GPU that are not held out."""
    vllm = coefficients.engine("vllm")
    nothing = LayerOverhead(0.0, 0.0, 0.0)
    none = replace(
        vllm,
        **dict.fromkeys(("step_s", "prompt_step_s", "request_s", "prompt_token_s"), 0.0),
        kernel_scale=1.0,
        layer=nothing,
        prompt_layer=nothing,
    )
    fitted = [row for row in rows if not row.held_out]
    kernels_s = seconds_of(fitted, GPU, coefficients, none)
    measured_s = np.array([row.seconds for row in fitted])
    beside = [_beside(row) for row in fitted]
    table = np.column_stack((kernels_s, np.array(beside))) / measured_s[:, None]
    found = non_negative_least_squares(table, np.ones(len(fitted)))
    scale, step_s, prompt_step_s, request_s, token_s, layer_s, prompt_layer_s = found.tolist()
    on_gpu = f"{len(fitted)} steps of layers of Llama 3 8B on an {GPU} ({DATE})"
    alone = replace(
        none,
        evidence=on_gpu,
        step_s=step_s,
        prompt_step_s=prompt_step_s,
        request_s=request_s,
        prompt_token_s=token_s,
        kernel_scale=scale,
        layer=replace(nothing, every_s=layer_s),
        prompt_layer=replace(nothing, every_s=prompt_layer_s),
    )
    planned = EngineOverhead(
        evidence=f"{on_gpu}, with scheduler and workers on a processor; what servers of vLLM take where that is more",
        step_s=_longer(step_s + STEP_CPU_S, vllm.step_s),
        prompt_step_s=_longer(prompt_step_s, vllm.prompt_step_s),
        request_s=_longer(request_s + REQUEST_CPU_S, vllm.request_s),
        prompt_token_s=_longer(token_s, vllm.prompt_token_s),
        kernel_scale=_longer(scale, vllm.kernel_scale),
        link_wait=vllm.link_wait,
        layer=replace(vllm.layer, every_s=_longer(layer_s, vllm.layer.every_s)),
        prompt_layer=replace(vllm.prompt_layer, every_s=_longer(prompt_layer_s, vllm.prompt_layer.every_s)),
    )
    return Fit(alone, planned)


def seconds_of(rows: list[ProfileRow], name: str, coefficients: Coefficients, engine: EngineOverhead) -> Floats:
    """(n,) seconds that steps take on the GPU `name`, with `engine` around its kernels."""
    card, engines = gpu(name), dict(coefficients.engines) | {"torch": engine}
    times = EstimatedCostModel({card.name: card}, "torch", replace(coefficients, engines=engines))
    model, node = model_from_hf_config(CONFIG, "llama-3-8b", "none"), NodeConfig(name, name, 1, 0.0, 0.0, 0.0)
    found = []
    for row in rows:
        counts = (row.layers, row.prompt_tokens, row.prompt_context, row.decode_requests, row.decode_context)
        step = NodeStep(*(np.array(float(count)) for count in counts))
        found.append(float(times.stage_seconds(model, node, Parallel(), step, head=row.last)))
    return np.array(found)


def _beside(row: ProfileRow) -> tuple[float, ...]:
    """How often a step has what an engine adds to its kernels, in the order of the fit."""
    has_prompt = float(row.prompt_tokens > 0)
    return 1.0, has_prompt, row.decode_requests, row.prompt_tokens, row.layers, row.layers * has_prompt


def _longer(ours: float, theirs: float) -> float:
    return max(float(f"{ours:.4g}"), theirs)


def measured_rows() -> list[ProfileRow]:
    return rows_in(ROWS)


def rows_in(file: Path) -> list[ProfileRow]:
    return [msgspec.json.decode(line, type=ProfileRow) for line in file.read_bytes().splitlines()]


def main() -> None:
    coefficients = load_coefficients()
    planned = fit_torch(coefficients, measured_rows()).planned
    done = replace(coefficients, engines=dict(coefficients.engines) | {"torch": planned})
    OUT.write_text(json.dumps(msgspec.to_builtins(done), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
