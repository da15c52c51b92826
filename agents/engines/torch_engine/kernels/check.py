"""Compares the kernels with plain operations, on small matrices.

    python -m agents.engines.torch_engine.kernels.check [--device cuda]

Prints how far each is off, as a share of the largest number; ends with status 1 where one is off too far. On a CPU
(`TRITON_INTERPRET=1`) Triton's interpreter runs them in fp32.
"""

import argparse
import sys
from collections.abc import Callable

import torch
from torch.nn import functional

from agents.engines.torch_engine.kernels.paged_attention import attend
from agents.engines.torch_engine.kernels.row_operations import gated, normalise, rotate_and_keep
from agents.engines.torch_engine.mxfp4 import dequantised
from agents.engines.torch_engine.normalised import normalised
from agents.engines.torch_engine.packed_operand import mxfp4_operand, packed_operand
from agents.engines.torch_engine.quantised_matrix import E2M1, E4M3, INT4, INT8, Code, QuantisedMatrix
from agents.engines.torch_engine.rope import rotate
from agents.engines.torch_engine.scale_grid import ScaleGrid

Both = tuple[torch.Tensor, torch.Tensor]
"""What a kernel says, and what it should."""
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.02}
HEADS, KV_HEADS, HEAD, BLOCK = 6, 2, 24, 16


class _Random:
    """Numbers that are the same every time; on the CPU first, whatever the device."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self._generator = torch.Generator().manual_seed(0)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._generator).to(device=self.device, dtype=self.dtype)

    def between(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self._generator).to(self.device)

    def permuted(self, count: int) -> torch.Tensor:
        return torch.randperm(count, generator=self._generator).to(self.device)


def _attention(random: _Random, lengths: tuple[int, ...], queries: int, window: int, with_sinks: bool) -> Both:
    """The last `queries` tokens of requests of so many tokens."""
    blocks = -(-max(lengths) // BLOCK)
    keys, values = (random.normal(len(lengths) * blocks, BLOCK, KV_HEADS, HEAD) for _ in range(2))
    units = random.permuted(len(lengths) * blocks).view(len(lengths), blocks)
    rows = random.normal(len(lengths) * queries, HEADS, HEAD)
    sinks = random.normal(HEADS) if with_sinks else None
    tile = 1 if queries == 1 else 4
    tiles = [
        (number, number * queries + first, length - queries + first, min(tile, queries - first))
        for number, length in enumerate(lengths)
        for first in range(0, queries, tile)
    ]
    table = torch.tensor(tiles, dtype=torch.int32, device=random.device)
    # Of each request the first block is given back where a window no longer sees it.
    unseen = [max(0, length - queries - window + 1) // BLOCK if window else 0 for length in lengths]
    shifted = torch.stack([row.roll(-first) for row, first in zip(units, unseen, strict=True)])
    first_block = torch.tensor(unseen, dtype=torch.int32, device=random.device)
    ours = torch.empty_like(rows)
    attend(rows, keys, values, shifted.int(), first_block, table, tile, window, sinks, ours)
    expected = []
    for number, length in enumerate(lengths):
        some = rows[number * queries : (number + 1) * queries].float()
        held = [each[units[number]].flatten(0, 1)[:length].float() for each in (keys, values)]
        shared = [each.repeat_interleave(HEADS // KV_HEADS, dim=1) for each in held]
        scores = torch.einsum("qhd,khd->hqk", some, shared[0]) * HEAD**-0.5
        query_at = torch.arange(length - queries, length, device=random.device)[:, None]
        key_at = torch.arange(length, device=random.device)
        hidden = (key_at > query_at) | ((key_at <= query_at - window) if window else torch.zeros_like(key_at).bool())
        scores = scores.masked_fill(hidden, float("-inf"))
        if sinks is not None:
            scores = torch.cat((scores, sinks.float()[:, None, None].expand(-1, queries, -1)), dim=-1)
        weights = scores.softmax(-1)[..., :length]
        expected.append(torch.einsum("hqk,khd->qhd", weights, shared[1]))
    return ours, torch.cat(expected)


def _matrix(random: _Random, code: Code, outputs: int, inputs: int, width: int, *, zeros: bool) -> QuantisedMatrix:
    """`width`: inputs that share a scale, 0: all."""
    codes = random.between(0, 1 << code.bits, outputs, inputs).to(torch.uint8)
    if code is E4M3:
        codes = codes & 0xF7  # not all bits but the sign's: that is no number
    groups = -(-inputs // width) if width else 1
    scales = ScaleGrid(random.normal(outputs, groups).abs() + 0.5, width or inputs)
    moved = ScaleGrid(random.between(-3, 4, outputs, groups).to(torch.int8), width or inputs) if zeros else None
    return QuantisedMatrix.of(code, codes, (scales,), moved)


def _product(random: _Random, matrix: QuantisedMatrix, experts: int, rows: int = 5) -> Both:
    outputs = matrix.outputs // experts
    bias = random.normal(experts, outputs)
    operand = packed_operand(matrix, outputs, bias)
    if operand is None:
        raise ValueError("there is no kernel for it")
    weights = matrix.unpacked(slice(0, matrix.outputs), torch.float32).view(experts, outputs, -1)
    return _products(random, operand.multiplied, weights, bias, rows)


def _products(
    random: _Random,
    ours: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor],
    weights: torch.Tensor,
    bias: torch.Tensor,
    alone: int = 5,
) -> Both:
    """Of several experts one has no rows, and some rows are of none. `alone`: rows of one."""
    experts = len(weights)
    counts = [alone] if experts == 1 else [0 if expert == 1 else 3 + 16 * (expert % 2) for expert in range(experts)]
    ends = torch.tensor(counts, device=random.device).cumsum(0).int()
    rows = random.normal(sum(counts) + (2 if experts > 1 else 0), weights.shape[2])
    made = ours(rows, None if experts == 1 else ends)[: sum(counts)]
    pieces = rows[: sum(counts)].float().split(counts)
    exact = weights.to(random.dtype).float()
    every = [functional.linear(*each) for each in zip(pieces, exact, bias.float(), strict=True)]
    return made, torch.cat(every)


def _mxfp4(random: _Random) -> Both:
    blocks = random.between(0, 256, 4, 40, 3, 16).to(torch.uint8)
    scales = random.between(120, 125, 4, 40, 3).to(torch.uint8)
    inputs, bias = slice(8, 88), random.normal(4, 40)
    weights = dequantised(blocks, scales)[..., inputs]
    return _products(random, mxfp4_operand(blocks, scales, inputs, bias).multiplied, weights, bias)


def _numbers(random: _Random, matrix: QuantisedMatrix) -> Both:
    operand = packed_operand(matrix, matrix.outputs, None)
    if operand is None:
        raise ValueError("there is no kernel for it")
    some = slice(3, matrix.outputs)
    return operand.widened(some, random.dtype), matrix.unpacked(some, torch.float32)


def _gate(random: _Random) -> Both:
    gate, up = random.normal(5, 2 * 1100).chunk(2, dim=-1)
    return gated(gate, up), functional.silu(gate) * up


def _norm(random: _Random, late_cast: bool) -> Both:
    rows, weight = random.normal(5, 100), random.normal(100)
    return normalise(rows, weight, 1e-5, late_cast), normalised(rows, weight, 1e-5, late_cast)


def _rotation(random: _Random, half: int, with_norms: bool) -> Both:
    tokens, slots = 3, torch.tensor([40, 3, 17], device=random.device)
    every = random.normal(tokens, HEADS + 2 * KV_HEADS, HEAD)
    cosine, sine = (random.normal(tokens, 1, half) for _ in range(2))
    weights = [random.normal(HEAD) if with_norms else None for _ in range(2)]
    keys, values = (random.normal(4, BLOCK, KV_HEADS, HEAD) for _ in range(2))
    cached = [each.clone().flatten(0, 1) for each in (keys, values)]
    ours = rotate_and_keep(every, HEADS, cosine, sine, slots, keys, values, weights[0], weights[1], 1e-5)
    parts = list(every.split((HEADS, KV_HEADS, KV_HEADS), dim=1))
    for number, weight in enumerate(weights):
        if weight is not None:
            parts[number] = normalised(parts[number], weight, 1e-5, late_cast=False)
        parts[number] = rotate(parts[number], cosine, sine)
    cached[0][slots], cached[1][slots] = parts[1], parts[2]
    found = (ours, keys, values)
    return torch.cat([each.flatten() for each in found]), torch.cat([each.flatten() for each in (parts[0], *cached)])


CHECKS: dict[str, Callable[[_Random], Both]] = {
    "attention of single tokens": lambda r: _attention(r, (1, 90, 33), 1, 0, with_sinks=False),
    "attention of single tokens with a window and sinks": lambda r: _attention(r, (7, 130), 1, 40, with_sinks=True),
    "attention of prompts": lambda r: _attention(r, (9, 70), 9, 0, with_sinks=False),
    "attention of prompts with a window and sinks": lambda r: _attention(r, (9, 70), 9, 20, with_sinks=True),
    "product with MXFP4 of experts": _mxfp4,
    "product with NVFP4": lambda r: _product(r, _matrix(r, E2M1, 48, 96, 16, zeros=False), 1),
    "product with FP8": lambda r: _product(r, _matrix(r, E4M3, 72, 96, 48, zeros=False), 1),
    "product with FP8 of experts": lambda r: _product(r, _matrix(r, E4M3, 3 * 24, 80, 0, zeros=False), 3),
    "product with 4-bit integers of experts": lambda r: _product(r, _matrix(r, INT4, 3 * 24, 96, 32, zeros=True), 3),
    "product with 8-bit integers": lambda r: _product(r, _matrix(r, INT8, 72, 96, 0, zeros=True), 1),
    "product with FP8 of many rows": lambda r: _product(r, _matrix(r, E4M3, 72, 128, 64, zeros=False), 1, 100),
    "product with FP8 in parts": lambda r: _product(r, _matrix(r, E4M3, 72, 2176, 128, zeros=False), 1),
    "product with 4-bit integers in parts": lambda r: _product(r, _matrix(r, INT4, 72, 2112, 32, zeros=True), 1),
    "numbers of FP8": lambda r: _numbers(r, _matrix(r, E4M3, 72, 144, 0, zeros=False)),
    "numbers of NVFP4": lambda r: _numbers(r, _matrix(r, E2M1, 48, 352, 16, zeros=False)),
    "numbers of 4-bit integers": lambda r: _numbers(r, _matrix(r, INT4, 40, 320, 32, zeros=True)),
    "gate": _gate,
    "norm": lambda r: _norm(r, late_cast=False),
    "norm that casts late": lambda r: _norm(r, late_cast=True),
    "rotation": lambda r: _rotation(r, HEAD // 2, with_norms=False),
    "rotation of a part behind norms": lambda r: _rotation(r, HEAD // 3, with_norms=True),
}


def off_by(name: str, device: torch.device) -> float:
    """Return the largest difference, as a share of the largest number."""
    ours, expected = CHECKS[name](_Random(device, _dtype(device)))
    return float((ours.float() - expected.float()).abs().max() / expected.float().abs().max())


def first_fault(device: torch.device) -> str | None:
    """Say what a kernel does wrong there; None: nothing."""
    for name in CHECKS:
        try:
            off = off_by(name, device)
        except Exception as error:  # of a compiler, a driver, a release of Triton: whatever they raise
            return f"{name}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if not off <= _TOLERANCE[_dtype(device)]:
            return f"{name} is off by {off:.1%}"
    return None


def _dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "cpu" else torch.bfloat16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    device = parser.parse_args().device
    for name in CHECKS:
        print(f"{name}: off by {off_by(name, device):.1e}", flush=True)
    fault = first_fault(device)
    if fault is not None:
        print(fault, file=sys.stderr)
    return 0 if fault is None else 1


if __name__ == "__main__":
    sys.exit(main())
