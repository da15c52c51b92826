"""Least squares of the kernel formulas of templates_lib.cost.kernels on the measured tables."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from perf_tables import Table, table
from scipy.optimize import least_squares

from templates_lib.cost.coefficients import Kernel, Link, LinkGroups
from templates_lib.cost.formats import peak_flops
from templates_lib.cost.kernels import (
    all_reduce_seconds,
    decode_attention_seconds,
    experts_seconds,
    gemm_seconds,
    prefill_attention_seconds,
)
from templates_lib.values.gpu import Gpu

Floats = NDArray[np.float64]
LOW = {"compute": 0.02, "memory": 0.05, "launch_s": 1e-7, "pad_rows": 0.01, "pad_columns": 0.01, "row_s": 1e-13}
HIGH = {"compute": 1.0, "memory": 1.0, "launch_s": 2e-4, "pad_rows": 1500.0, "pad_columns": 6000.0, "row_s": 1e-6}
START = {"compute": 0.5, "memory": 0.7, "launch_s": 5e-6, "pad_rows": 30.0, "pad_columns": 100.0, "row_s": 1e-9}
FORMAT_OF = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8"}


@dataclass(frozen=True)
class Fit:
    kernel: Kernel
    fitted_error: float
    held_out_error: float
    """Median relative error of each half of the split."""
    rows: int
    """Fitted."""


def fit_kernel(seconds: Callable[[Kernel, Floats], Floats], rows: Floats, free: tuple[str, ...]) -> Fit:
    """Robust fit of log seconds; `rows` as perf_tables.table makes them."""
    measured, held_out = rows[:, -2], rows[:, -1] > 0

    def kernel(x: Floats) -> Kernel:
        values = dict(zip(free, np.exp(x).tolist(), strict=True))
        return Kernel(**{"compute": 1.0, "memory": 1.0, "launch_s": 0.0, **values})

    def residual(x: Floats) -> Floats:
        return np.log(seconds(kernel(x), rows[~held_out])) - np.log(measured[~held_out])

    bounds = (np.log([LOW[f] for f in free]), np.log([HIGH[f] for f in free]))
    best = least_squares(residual, np.log([START[f] for f in free]), loss="soft_l1", f_scale=0.2, bounds=bounds)
    found = kernel(best.x)
    error = np.abs(seconds(found, rows) / measured - 1)
    return Fit(found, float(np.median(error[~held_out])), float(np.median(error[held_out])), int((~held_out).sum()))


def gemm_fits(gpus: dict[str, Gpu]) -> dict[tuple[str, str], Fit]:
    """(GPU, compute format) → fit. The fp8_block table was timed with a host launch of 60 µs in it: not used."""
    tables = table("aiconf_gemm_vllm.csv.gz", "gemm_dtype", ("m", "n", "k"))
    fits = {}
    for (name, dtype), rows in tables.items():
        if dtype == "fp8_block":
            continue
        compute, gpu = FORMAT_OF[dtype], gpus[name]
        big = rows[(rows[:, 1] >= 512) & (rows[:, 2] >= 512) & (rows[:, 1] * rows[:, 2] < 6e8)]
        stored = 2.0 if compute == "bf16" else 1.0

        def seconds(k: Kernel, r: Floats, c: str = compute, g: Gpu = gpu, w: float = stored) -> Floats:
            return gemm_seconds(k, peak_flops(g, c), g.hbm_bytes_per_s, r[:, 0], r[:, 1], r[:, 2], w)

        fits[name, compute] = fit_kernel(seconds, big, ("compute", "memory", "launch_s", "pad_rows", "pad_columns"))
    return fits


def expert_fits(gpus: dict[str, Gpu]) -> dict[tuple[str, str], Fit]:
    """(GPU, compute format) → fit. fp8 is taken block-wise where that was measured: it is how models are published."""
    columns = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    tables = table("aiconf_moe_vllm.csv.gz", "moe_dtype", columns)
    fits = {}
    for (name, dtype), rows in tables.items():
        if dtype == "fp8" and (name, "fp8_block") in tables and name != "B200":
            continue
        if dtype == "fp8_block" and name == "B200":
            continue
        compute, gpu = FORMAT_OF[dtype], gpus[name]
        big = rows[rows[:, 1] * rows[:, 2] / rows[:, 5] >= 2e5]

        def seconds(k: Kernel, r: Floats, c: str = compute, g: Gpu = gpu) -> Floats:
            tokens, hidden, inter, topk, experts, tp, ep = r[:, :7].T
            peak, stored = peak_flops(g, c), 2.0 if c == "bf16" else 1.0
            pairs, local, width = tokens * topk / ep, experts / ep, inter / tp
            return experts_seconds(k, peak, g.hbm_bytes_per_s, tokens, pairs, local, hidden, width, 3, stored)

        fits[name, compute] = fit_kernel(seconds, big, ("compute", "memory", "launch_s", "pad_rows", "row_s"))
    return fits


def attention_fits(gpus: dict[str, Gpu]) -> tuple[dict[str, Fit], dict[str, Fit]]:
    """GPU → fit of prefill and of decode attention (bf16 cache)."""
    bf16 = {"kv_cache_dtype": "bfloat16"}
    shape = ("num_heads", "num_key_value_heads", "head_dim")
    prefill_rows = table("aiconf_attention_prefill_vllm.csv.gz", "attn_dtype", ("batch_size", "isl", *shape), bf16)
    decode_rows = table("aiconf_attention_decode_vllm.csv.gz", "attn_dtype", ("batch_size", "kv_len", *shape), bf16)
    prefill, decode = {}, {}
    for (name, _), rows in prefill_rows.items():

        def prefill_seconds(k: Kernel, r: Floats, g: Gpu = gpus[name]) -> Floats:
            batch, length, heads, kv_heads, dim = r[:, :5].T
            peak, bandwidth = peak_flops(g, "bf16"), g.hbm_bytes_per_s
            keys, kv = (length + 1) / 2, 4 * kv_heads * dim
            return prefill_attention_seconds(k, peak, bandwidth, batch * length, keys, heads, 2 * dim, kv)

        prefill[name] = fit_kernel(prefill_seconds, rows, ("compute", "memory", "launch_s", "pad_rows"))
    for (name, _), rows in decode_rows.items():

        def decode_seconds(k: Kernel, r: Floats, g: Gpu = gpus[name]) -> Floats:
            batch, length, heads, kv_heads, dim = r[:, :5].T
            peak, bandwidth = peak_flops(g, "bf16"), g.hbm_bytes_per_s
            return decode_attention_seconds(k, peak, bandwidth, batch, length, heads, 2 * dim, 4 * kv_heads * dim)

        decode[name] = fit_kernel(decode_seconds, rows, ("compute", "memory", "launch_s", "row_s"))
    return prefill, decode


LINK_BYTES_PER_S = {"A100-80": 300e9, "H100": 450e9, "H200": 450e9, "B200": 900e9, "L40S": 32e9, "RTXPRO6000": 64e9}
"""One direction of one GPU (aiconf_system_specs.csv)."""


def link_fits() -> dict[str, tuple[LinkGroups, int]]:
    """GPU → all-reduce over its own kind of link, 2, 4 and 8 peers (vLLM's kernels inside a CUDA graph); rows."""
    columns = ("num_gpus", "message_size")
    tables: Table = table("aiconf_allreduce_vllm.csv.gz", "backend", columns, {"backend": "vllm_graph"})
    fits = {}
    for (name, _), rows in tables.items():
        groups, count = [], 0
        for peers in (2, 4, 8):
            own = rows[(rows[:, 0] == peers) & (rows[:, 1] < 1.5e8)]
            groups.append(_link(own, peers, LINK_BYTES_PER_S[name]))
            count += len(own)
        fits[name] = LinkGroups(tuple(groups)), count
    return fits


def _link(rows: Floats, peers: int, bytes_per_s: float) -> Link:
    def link(x: Floats) -> Link:
        return Link(peers, *np.exp(x))

    def residual(x: Floats) -> Floats:
        message = 2.0 * rows[:, 1]
        return np.log(all_reduce_seconds(LinkGroups((link(x),)), bytes_per_s, peers, message)) - np.log(rows[:, -2])

    found = link(least_squares(residual, np.log([1e-5, 0.5]), loss="soft_l1", f_scale=0.2).x)
    return Link(peers, float(found.latency_s), float(found.efficiency))
