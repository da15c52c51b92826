"""Per-layer measurements of cards that no kernel table covers: Helix (T4, L4, V100, A100-40) and Vidur (A40)."""

from dataclasses import dataclass, replace

import numpy as np
from fit_kernels import Fit, fit_kernel
from numpy.typing import NDArray
from perf_tables import rows_of
from scipy.optimize import least_squares

from templates_lib.cost.coefficients import (
    Coefficients,
    EngineOverhead,
    GpuCoefficients,
    Kernel,
    LayerOverhead,
    Link,
    LinkGroups,
)
from templates_lib.cost.estimated import EstimatedCostModel
from templates_lib.cost.formats import peak_flops
from templates_lib.cost.kernels import gemm_seconds
from templates_lib.cost.validation import is_held_out
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
NOTHING = LayerOverhead(0.0, 0.0, 0.0)
BARE = EngineOverhead("kernels alone", 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, NOTHING, NOTHING)
HELIX_GPU = {"T4": "T4", "L4": "L4", "V100-16GB": "V100", "A100-40GB": "A100-40"}
LINK_GBPS = {"T4": 128.0, "L4": 256.0}
"""PCIe 3 and 4 x16, as the hardware catalogue has them."""
PREFILL_CONTEXT, DECODE_CONTEXT = 380.0, 700.0
"""Tokens that the profile does not state: half of Azure conversation's mean prompt (763), and prompt less than half an
answer. A100-40, whose kernels are known from A100-80, is off least with 700."""
LLAMA = {"model_type": "llama", "vocab_size": 32000}
MODELS = {
    "llama1_30b": {"num_hidden_layers": 60, "hidden_size": 6656, "intermediate_size": 17920, "num_attention_heads": 52},
    "llama2_70b": {"num_hidden_layers": 80, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
                   "num_key_value_heads": 8},
}  # fmt: skip
VIDUR_COLUMNS = ("attn_pre_proj_ms", "attn_post_proj_ms", "mlp_up_proj_ms", "mlp_down_proj_ms")
VIDUR_MODELS = {
    "meta-llama/Llama-2-7b-hf": (4096, 11008, 4096, 4096),
    "meta-llama/Llama-2-70b-hf": (8192, 28672, 8192, 1024),
    "codellama/CodeLlama-34b-Instruct-hf": (8192, 22016, 8192, 1024),
    "internlm/internlm-20b": (5120, 13824, 5120, 5120),
    "Qwen/Qwen-72B": (8192, 24576, 8192, 8192),
}
"""Hidden size, feed-forward width, widths of queries and of keys (the models' config.json)."""


@dataclass(frozen=True)
class LayerRows:
    """Rows of one card, model, tensor parallel degree and phase; arrays (n,)."""

    gpu: str
    model: ModelSpec
    tp: int
    decode: bool
    amount: Floats
    seconds: Floats
    held_out: NDArray[np.bool_]


def helix_rows() -> list[LayerRows]:
    found: dict[tuple[str, str, int, bool], list[tuple[float, float, bool]]] = {}
    for row in rows_of("helix_layer_profile.csv"):
        key = (HELIX_GPU[row["gpu"]], row["model"], int(row["tp_gpus"]), row["phase"] == "decode")
        value = (float(row["batch_tokens"]), float(row["ms_per_layer"]) / 1e3, is_held_out(row))
        found.setdefault(key, []).append(value)
    rows = []
    for (gpu, name, tp, decode), values in found.items():
        model = model_from_hf_config({**LLAMA, **MODELS[name]}, name, "")
        amount, seconds, held_out = np.array(values).T
        rows.append(LayerRows(gpu, model, tp, decode, amount, seconds, held_out > 0))
    return rows


def predicted(rows: LayerRows, gpus: dict[str, Gpu], coefficients: Coefficients) -> Floats:
    """Seconds of one layer without an engine."""
    cost_model = EstimatedCostModel(gpus, "bare", replace(coefficients, engines={"bare": BARE}))
    none = np.zeros_like(rows.amount)
    step = NodeStep(
        none + 1,
        none if rows.decode else rows.amount,
        none + PREFILL_CONTEXT,
        rows.amount if rows.decode else none,
        none + DECODE_CONTEXT,
    )
    node = NodeConfig("helix", rows.gpu, rows.tp, LINK_GBPS.get(rows.gpu, 0.0), 10.0, 0.0)
    return cost_model.stage_seconds(rows.model, node, Parallel(tp=rows.tp), step, head=False)


def helix_fit(gpu: str, gpus: dict[str, Gpu], coefficients: Coefficients) -> tuple[GpuCoefficients, int]:
    """Efficiencies of a card from its single-GPU layers: products by phase, decode attention by its memory traffic;
    and how many rows were fitted."""
    rows = [r for r in helix_rows() if r.gpu == gpu and r.tp == 1]
    donor = coefficients.gpus["A100-80"]

    def card(x: Floats) -> GpuCoefficients:
        compute, memory, pad_rows, attention = np.exp(x).tolist()
        return replace(
            donor,
            gemm={"bf16": Kernel(compute, memory, 5e-6, pad_rows)},
            prefill_attention=replace(donor.prefill_attention, compute=0.6 * compute),
            decode_attention=replace(donor.decode_attention, memory=attention),
        )

    def residual(x: Floats) -> Floats:
        trial = replace(coefficients, gpus={**coefficients.gpus, gpu: card(x)})
        parts = [np.log(predicted(r, gpus, trial) / r.seconds)[~r.held_out] for r in rows]
        return np.concatenate(parts)

    bounds = (np.log([0.05, 0.2, 0.01, 0.1]), np.log([1.0, 1.0, 300.0, 1.0]))
    best = least_squares(residual, np.log([0.5, 0.7, 30.0, 0.6]), bounds=bounds, loss="soft_l1", f_scale=0.2)
    return card(best.x), sum(int((~r.held_out).sum()) for r in rows)


def helix_links(gpu: str, gpus: dict[str, Gpu], coefficients: Coefficients) -> tuple[LinkGroups, int]:
    """PCIe efficiencies from the layers over 2 and 4 GPUs, and how many rows were fitted; larger groups fall off as
    L40S's do (measured to 8)."""
    shape = coefficients.links["L40S"].groups
    groups: list[Link] = []
    count = 0
    for i, pattern in enumerate(shape):
        rows = [r for r in helix_rows() if r.gpu == gpu and r.tp == pattern.peers]
        if not rows:
            groups.append(
                replace(pattern, efficiency=groups[-1].efficiency * pattern.efficiency / shape[i - 1].efficiency)
            )
            continue

        def residual(x: Floats, rows: list[LayerRows] = rows, pattern: Link = pattern) -> Floats:
            trial = LinkGroups((replace(pattern, efficiency=float(np.exp(x[0]))),))
            changed = replace(coefficients, links={**coefficients.links, gpu: trial})
            return np.concatenate([np.log(predicted(r, gpus, changed) / r.seconds)[~r.held_out] for r in rows])

        count += sum(int((~r.held_out).sum()) for r in rows)
        best = least_squares(residual, np.log([0.3]), loss="soft_l1", f_scale=0.2)
        groups.append(replace(pattern, efficiency=float(np.exp(best.x[0]))))
    return LinkGroups(tuple(groups)), count


def helix_errors(gpus: dict[str, Gpu], coefficients: Coefficients) -> dict[tuple[str, int, str], tuple[float, int]]:
    """(GPU, tp, phase) → median relative error of held-out rows, and how many."""
    errors: dict[tuple[str, int, str], list[Floats]] = {}
    for rows in helix_rows():
        error = np.abs(predicted(rows, gpus, coefficients) / rows.seconds - 1)[rows.held_out]
        errors.setdefault((rows.gpu, rows.tp, "decode" if rows.decode else "prefill"), []).append(error)
    return {k: (float(np.median(np.concatenate(v))), sum(map(len, v))) for k, v in sorted(errors.items())}


def vidur_fit(vidur_gpu: str, gpu: Gpu) -> Fit:
    """Products of one card from Vidur's linear layers (whose times are rounded to half a microsecond)."""
    samples = []
    for row in rows_of("vidur_linear_ops.csv.gz"):
        if row["gpu"] != vidur_gpu or row["model"] not in VIDUR_MODELS:
            continue
        tp, held_out = int(row["tp"]), float(is_held_out(row))
        hidden, width, queries, keys = VIDUR_MODELS[row["model"]]
        shapes = (  # (columns, depth): the first of each pair is cut by columns, the second by depth
            ((queries + 2 * keys) / tp, hidden),
            (hidden, queries / tp),
            (2 * width / tp, hidden),
            (hidden, width / tp),
        )
        for column, (n, k) in zip(VIDUR_COLUMNS, shapes, strict=True):
            if row[column] and float(row[column]) > 0.02:
                samples.append((float(row["num_tokens"]), n, k, float(row[column]) / 1e3, held_out))
    table = np.array(samples)

    def seconds(k: Kernel, r: Floats) -> Floats:
        return gemm_seconds(k, peak_flops(gpu, "bf16"), gpu.hbm_bytes_per_s, r[:, 0], r[:, 1], r[:, 2], 2.0)

    return fit_kernel(seconds, table, ("compute", "memory", "launch_s", "pad_rows", "pad_columns"))
