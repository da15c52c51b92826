"""Whole steps of LLaMA models on A100, measured by the authors of MuxServe, against both sources of step times.

    python -m bench.a100_steps

Reads shared/data/perf (a sibling of the repository); no number of either source was fitted to these rows. Prompts and
decodes apart, on cards of 80 GB that nobody shares. The engine is MuxServe's own, and both sources are as planned for
vLLM: what the host does for several GPUs differs most. Kernel times (extra `kernels`) are of the models and splits that
were timed. Ten seconds.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "extracts"))

from perf_tables import rows_of

from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.kernel_based import KernelCostModel, kernel_cost_model
from templates_lib.cost.kernel_tables import installed_release
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel, StageCostModel
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

FILE = "muxserve_a100_llama_prefill_decode.csv.gz"
SIZES = {
    "llama-7b": (4096, 32, 32, 11008),
    "llama-13b": (5120, 40, 40, 13824),
    "llama-30b": (6656, 60, 52, 17920),
    "llama-65b": (8192, 80, 64, 22016),
}
"""(hidden size, layers, heads, feed-forward width)."""
NVLINK_GBPS = 2400.0
NONE = np.zeros(())


def llama(hidden: int, layers: int, heads: int, width: int) -> ModelSpec:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "intermediate_size": width, "vocab_size": 32000, "max_position_embeddings": 2048, "torch_dtype": "float16",
        "tie_word_embeddings": False, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    }  # fmt: skip
    return model_from_hf_config(config, f"llama of {layers} layers", "")


def steps() -> Iterator[tuple[str, ModelSpec, int, NodeStep, float]]:
    """(phase, model, GPUs, step, measured seconds)."""
    models = {name: llama(*sizes) for name, sizes in SIZES.items()}
    for row in rows_of(FILE):
        if row["sm_percent"] != "100" or row["model"] not in models:
            continue
        model, batch, length = models[row["model"]], np.array(float(row["batch_size"])), np.array(float(row["seq_len"]))
        layers, gpus = np.array(float(model.layers)), int(row["tp"])
        phases = {
            "prefill": ("prefill_ms", NodeStep(layers, batch * length, (length - 1) / 2, NONE, NONE)),
            "decode": ("decode_step_ms", NodeStep(layers, NONE, NONE, batch, length)),
        }
        for phase, (column, step) in phases.items():
            if row[column] and float(row[column]) > 0:
                yield phase, model, gpus, step, float(row[column]) / 1e3


def main() -> None:
    gpus = load_gpus()
    sources: list[StageCostModel] = [estimated_cost_model(gpus)]
    if installed_release():
        sources.append(kernel_cost_model(gpus))
    found: dict[tuple[str, int, str], list[float]] = {}
    for phase, model, count, step, seconds in steps():
        node, parallel = NodeConfig(f"A100-80:{count}", "A100-80", count, NVLINK_GBPS, 0.0, 0.0), Parallel(tp=count)
        for source in sources:
            if isinstance(source, KernelCostModel) and source.missing(model, node, parallel):
                continue
            took = float(source.stage_seconds(model, node, parallel, step, head=True))
            found.setdefault((phase, count, source.source), []).append(took / seconds)
    print(f"{'phase':8} {'GPUs':>4} {'source':10} {'steps':>6} {'median error':>13} {'predicted / measured':>21}")
    for (phase, count, name), ratios in sorted(found.items()):
        error, bias = np.median(np.abs(np.array(ratios) - 1)), np.median(ratios)
        print(f"{phase:8} {count:4} {name:10} {len(ratios):6} {error:13.1%} {bias:21.2f}")


if __name__ == "__main__":
    main()
