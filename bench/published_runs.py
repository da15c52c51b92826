"""The estimate for vLLM against what others published of it on A100-80; no number of it was fitted to an A100's runs.

    python -m bench.published_runs

Runs from a fresh clone: the runs are in bench/extracts/published_a100_runs.csv, as read on 2026-11-26.
- `qwen`: tokens per second of vLLM 0.6.3 for one request at a time, 2,048 tokens of Qwen2.5 in 16, 8 and 4 bits
  (QwenLM/Qwen2.5 docs/source/benchmark/speed_benchmark.rst @010c37c). Time per token is that of all, its prompt
  included; what a prompt takes is what it makes the whole longer by than a prompt of one token: its own step, and its
  cache, which every later step reads. Runs without CUDA graphs (`enforce_eager`) and of vLLM 0.6.2 are left out.
- `splitwise`: time to the first token of Llama-2-70B, prompts alone, by the authors of Splitwise with a vLLM of 2023
  (Mutinifni/splitwise-sim data/perf_model.csv @3780880, MIT); medians of five. Their decode steps take as long on
  8 GPUs as on 4, and so were the host's: they are left out.
Nobody published runs of an L40S of which model, lengths and requests are all known.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.step_time_errors import Medians
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel, StageCostModel
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
FILE = Path(__file__).with_name("extracts") / "published_a100_runs.csv"
GPU, NVLINK_GBPS = "A100-80", 2400.0
SIZES = {
    "qwen2.5-0.5b": (896, 24, 14, 2, 4864, 151936),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 8960, 151936),
    "qwen2.5-3b": (2048, 36, 16, 2, 11008, 151936),
    "qwen2.5-7b": (3584, 28, 28, 4, 18944, 152064),
    "qwen2.5-14b": (5120, 48, 40, 8, 13824, 152064),
    "qwen2.5-32b": (5120, 64, 40, 8, 27648, 152064),
    "qwen2.5-72b": (8192, 80, 64, 8, 29568, 152064),
    "llama-2-70b": (8192, 80, 64, 8, 28672, 32000),
}
"""(hidden size, layers, heads, KV heads, feed-forward width, vocabulary), of the models' config.json."""
TIED = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b")
WEIGHTS: dict[str, dict[str, Any] | None] = {
    "bf16": None,
    "int8": {"quant_method": "gptq", "bits": 8, "group_size": 128},
    "int4": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
}
NONE = np.zeros(())


@dataclass(frozen=True, slots=True)
class Run:
    source: str
    model: str
    weights: str
    gpus: int
    requests: float
    prompt_tokens: float
    output_tokens: float
    ttft_s: float
    """Of the whole batch; 0 where it was not measured."""
    total_s: float
    """Of prompt and answer; 0 where it was not measured."""

    @property
    def setup(self) -> tuple[str, str, str, int]:
        """What stays when only lengths and requests change."""
        return self.source, self.model, self.weights, self.gpus


def runs() -> list[Run]:
    with FILE.open(encoding="utf-8") as lines:
        return [
            Run(
                row["source"], row["model"], row["weights"], int(row["gpus"]), float(row["requests"]),
                float(row["prompt_tokens"]), float(row["output_tokens"]), float(row["ttft_ms"] or 0) / 1e3,
                float(row["output_tokens"]) / float(row["tokens_per_s"]) if row["tokens_per_s"] else 0.0,
            )
            for row in csv.DictReader(lines)
        ]  # fmt: skip


def model_of(run: Run) -> ModelSpec:
    hidden, layers, heads, kv_heads, width, vocabulary = SIZES[run.model]
    family = "Qwen2" if run.model.startswith("qwen") else "Llama"
    config = {
        "architectures": [f"{family}ForCausalLM"], "model_type": family.lower(), "hidden_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "intermediate_size": width, "vocab_size": vocabulary, "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16", "tie_word_embeddings": run.model in TIED, "hidden_act": "silu",
        "rms_norm_eps": 1e-6, "quantization_config": WEIGHTS[run.weights],
    }  # fmt: skip
    return model_from_hf_config(config, run.model, "")


def predicted(run: Run, times: StageCostModel) -> tuple[float, float]:
    """(seconds of the prompts' step, seconds of a decode step in the middle of the answer)."""
    model, layers = model_of(run), np.asarray(float(SIZES[run.model][1]))
    prompts, context = np.asarray(run.requests * run.prompt_tokens), np.asarray((run.prompt_tokens - 1) / 2)
    cached = np.asarray(run.prompt_tokens + run.output_tokens / 2)
    node, parallel = NodeConfig(f"{GPU}:{run.gpus}", GPU, run.gpus, NVLINK_GBPS, 0.0, 0.0), Parallel(tp=run.gpus)
    steps = (
        NodeStep(layers, prompts, context, NONE, NONE),
        NodeStep(layers, NONE, NONE, np.asarray(run.requests), cached),
    )
    prompt, decode = (float(times.stage_seconds(model, node, parallel, step, head=True)) for step in steps)
    return prompt, decode


def ratios(times: StageCostModel) -> dict[tuple[str, str], Floats]:
    """(`prompt` or `token`, source) → predicted over measured."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    alone: dict[tuple[str, str, str, int], tuple[float, float]] = {}
    for run in runs():  # of a setup the one with the shortest prompt comes first
        prompt, decode = predicted(run, times)
        if run.ttft_s:
            found["prompt", run.source].append(prompt / run.ttft_s)
        if run.total_s:
            total = prompt + (run.output_tokens - 1) * decode
            found["token", run.source].append(total / run.total_s)
            if run.prompt_tokens == 1:
                alone[run.setup] = total, run.total_s
            elif run.setup in alone:
                short, measured = alone[run.setup]
                found["prompt", run.source].append((total - short) / (run.total_s - measured))
    return {name: np.array(values) for name, values in found.items()}


def medians() -> Medians:
    """Median errors over all runs, of prompts and of tokens, as plans have them for vLLM."""
    found = ratios(estimated_cost_model(load_gpus()))
    prompt, token = (_median(values for (what, _), values in found.items() if what == name) for name in WHAT)
    return Medians(len(runs()), prompt, token)


WHAT = ("prompt", "token")


def _median(parts: Iterable[Floats]) -> float:
    return round(float(np.median(np.abs(np.concatenate(list(parts)) - 1))), 4)


def main() -> None:
    print(f"{'':22} {'runs':>5} {'median error':>13} {'90 %':>8} {'predicted / measured':>21}")
    for (what, source), values in ratios(estimated_cost_model(load_gpus())).items():
        off = np.abs(values - 1)
        shares = f"{np.median(off):13.1%} {np.percentile(off, 90):8.1%} {np.median(values):21.2f}"
        print(f"{f'{what}, {source}':22} {len(values):5} {shares}")
    found = medians()
    print(f"{'all':22} {found.rows:5}   prompt {found.ttft:.1%}, token {found.tpot:.1%}")


if __name__ == "__main__":
    main()
