"""The torch engine's kernels on a GPU, each beside the operations that it stands for.

    python -m bench.gpu_kernels --gpu H100 [--device cuda]

First whether each says what plain operations say (`agents.engines.torch_engine.kernels.check`). Then milliseconds, and
the share of the card's memory rate at which what it has to read is read: attention of single tokens to a paged cache,
against gathering keys and values first; products with experts of gpt-oss-20b in MXFP4 and with a matrix of Llama 3 8B
in FP8, against unpacking them first. `--device cpu` tries what has no kernel.
"""

import argparse
import logging
import sys
from collections.abc import Callable

import torch

from agents.engines.torch_engine import triton_support
from agents.engines.torch_engine.attention_plan import decode_plan
from agents.engines.torch_engine.block_table import BLOCK_TOKENS, WindowGroup
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.kv_tables import KvTables
from agents.engines.torch_engine.mxfp4 import Mxfp4Matrices
from agents.engines.torch_engine.packed_operand import PackedLinear, mxfp4_operand, packed_operand
from agents.engines.torch_engine.quantised_linear import QuantisedLinear
from agents.engines.torch_engine.quantised_matrix import E4M3, QuantisedMatrix
from agents.engines.torch_engine.scale_grid import ScaleGrid
from agents.engines.torch_engine.sorted_rows import sorted_rows
from bench.gpu_stages import seconds_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import gpu

HEADS, KV_HEADS, HEAD = 32, 8, 128
ATTENDED = ((1, 1024), (16, 1024), (64, 1024), (16, 8192))
"""(requests, tokens of each)"""
EXPERTS, ACTIVE, HIDDEN, WIDTH = 32, 4, 2880, 5760
ROWS = (1, 16, 64, 512)
REPEATED = 20
"""Asked for behind each other, as in a step: what the processor takes to ask counts where it is longer."""


def show(what: str, ways: dict[str, Callable[[], object]], read_bytes: float, card: Gpu, device: torch.device) -> None:
    for name, way in ways.items():
        took_s = seconds_of(lambda way=way: [way() for _ in range(REPEATED)], device) / REPEATED
        share = read_bytes / took_s / card.hbm_bytes_per_s
        print(f"{what}, {name}: {1000 * took_s:.3f} ms, {share:.0%} of the card's memory rate", flush=True)


def attention(requests: int, tokens: int, card: Gpu, device: torch.device) -> None:
    blocks = tokens // BLOCK_TOKENS
    like = torch.empty(0, dtype=torch.bfloat16, device=device)
    cache = KvCache((WindowGroup(0, (0,)),), requests * blocks, KV_HEADS, HEAD, like)
    units = torch.randperm(requests * blocks).int().view(1, requests, blocks).to(device)
    tables = KvTables(units, torch.zeros(requests, dtype=torch.int32, device=device))
    at = torch.full((requests,), tokens - 1, device=device)
    queries = torch.randn(requests, HEADS, HEAD, device=device).to(torch.bfloat16)
    plans = {"plain": _without_kernels(lambda: decode_plan(tables, at, 0, HEADS // KV_HEADS, cache.keys))}
    if triton_support.runs_triton(device):
        plans["kernel"] = decode_plan(tables, at, 0, HEADS // KV_HEADS, cache.keys)
    ways = {name: lambda plan=plan: plan.attend(queries, cache, 0, None) for name, plan in plans.items()}
    read = 2 * requests * tokens * KV_HEADS * HEAD * 2
    show(f"attention of {requests} to {tokens} tokens", ways, read, card, device)


def _without_kernels(work: Callable[[], object]) -> object:
    runs = triton_support._runs
    triton_support._runs = lambda _kind: False
    try:
        return work()
    finally:
        triton_support._runs = runs


def experts(rows: int, card: Gpu, device: torch.device) -> None:
    """The gate and up projections of one layer."""
    blocks = torch.randint(0, 256, (EXPERTS, WIDTH, HIDDEN // 32, 16), dtype=torch.uint8, device=device)
    scales = torch.randint(120, 125, (EXPERTS, WIDTH, HIDDEN // 32), dtype=torch.uint8, device=device)
    inputs = slice(0, HIDDEN)
    chosen = torch.stack([torch.randperm(EXPERTS)[:ACTIVE] for _ in range(rows)]).to(device)
    at = sorted_rows(chosen, 0, EXPERTS, every=True)
    given = torch.randn(rows * ACTIVE, HIDDEN, device=device).to(torch.bfloat16)
    plain = Mxfp4Matrices(blocks, scales, inputs, None)
    ways: dict[str, Callable[[], object]] = {"plain": lambda: plain(given, at)}
    if triton_support.runs_triton(device):
        operand = mxfp4_operand(blocks, scales, inputs, None)
        ways["kernel"] = lambda: operand.multiplied(given, at.ends)
    visited = len(chosen.unique())
    show(f"{rows} rows through experts in MXFP4", ways, visited * WIDTH * HIDDEN * 17 / 32, card, device)


def matrix(rows: int, card: Gpu, device: torch.device) -> None:
    outputs, inputs = 28672, 4096
    codes = torch.randint(0, 120, (outputs, inputs), dtype=torch.uint8, device=device)
    scales = torch.rand(outputs // 128, inputs // 128, device=device)
    row_of = (torch.arange(outputs, device=device) // 128).to(torch.uint8)
    packed = QuantisedMatrix(E4M3, codes, inputs, (ScaleGrid(scales, 128, row_of),), None)
    given = torch.randn(rows, inputs, device=device).to(torch.bfloat16)
    ways: dict[str, Callable[[], object]] = {"plain": lambda: QuantisedLinear(packed, None)(given)}
    operand = packed_operand(packed, outputs, None) if triton_support.runs_triton(device) else None
    if operand is not None:
        ways["kernel"] = lambda: PackedLinear(operand)(given)
    show(f"{rows} rows through a matrix in FP8", ways, outputs * inputs, card, device)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", required=True, help="the card's name in gpus.csv")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    card, device = gpu(arguments.gpu), torch.device(arguments.device)
    is_used = triton_support.runs_triton(device)
    print(f"kernels are {'' if is_used else 'not '}used on {device}", flush=True)
    with torch.inference_mode():
        for requests, tokens in ATTENDED:
            attention(requests, tokens, card, device)
        for rows in ROWS:
            experts(rows, card, device)
            matrix(rows, card, device)
    return 0 if is_used else 1


if __name__ == "__main__":
    sys.exit(main())
