"""Reads the experts of one layer, as each family publishes them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from agents.engines.torch_engine.decoder_config import ExpertsConfig
from agents.engines.torch_engine.expert_matrices import ExpertMatrices, expert_matrices
from agents.engines.torch_engine.experts import (
    Experts,
    choose_then_softmax,
    clamped_swiglu,
    softmax_choose_normalise,
    softmax_then_choose,
    swiglu,
)
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.mxfp4 import BLOCK_WEIGHTS, Mxfp4Matrices
from agents.engines.torch_engine.packed_operand import PackedExperts, mxfp4_operand
from agents.engines.torch_engine.quantised_experts import quantised_experts
from agents.engines.torch_engine.shard import WHOLE
from agents.engines.torch_engine.triton_support import runs_triton

ALL = slice(None)


def qwen_experts(reader: LayerReader, config: ExpertsConfig, hidden: int) -> Experts:
    """Each expert has its own gate, up and down projections."""
    held, inside = _held(reader, config)
    each = [inside.under(f"experts.{i}.") for i in held]
    cut = inside.cut(config.width)
    width = cut[1].stop - cut[1].start
    names, parts = ("gate_proj", "up_proj"), (cut, cut)
    gate_up: ExpertMatrices
    down: ExpertMatrices
    if each[0].is_quantised("down_proj"):
        gate_up = quantised_experts((expert.quantised_rows(names, parts, hidden) for expert in each), inside.dtype)
        columns_of = ([expert.quantised_columns("down_proj", hidden, config.width)] for expert in each)
        down = quantised_experts(columns_of, inside.dtype)
    else:
        rows = [partial(expert.rows, names, parts, hidden) for expert in each]
        columns = [partial(expert.columns, "down_proj", hidden, config.width) for expert in each]
        gate_up = expert_matrices(rows, (2 * width, hidden), None, inside.like)
        down = expert_matrices(columns, (hidden, width), None, inside.like)
    return Experts(
        router=reader.whole("gate", config.count, hidden),
        route=softmax_choose_normalise if config.normalised else softmax_then_choose,
        count=config.count,
        active=config.active,
        first=held.start,
        gate_up=gate_up,
        down=down,
        activation=swiglu,
    )


def gpt_oss_experts(reader: LayerReader, config: ExpertsConfig, hidden: int) -> Experts:
    """All experts are stacked in one tensor, gate and up rows alternate, and every projection has a bias."""
    held, inside = _held(reader, config)
    experts = inside.under("experts.")
    chosen = slice(held.start, held.stop)
    columns = inside.shard.span(config.width)
    rows = slice(2 * columns.start, 2 * columns.stop)
    gate_up_bias = experts.tensor("gate_up_proj_bias", (config.count, 2 * config.width))[chosen, rows]
    down_bias = experts.tensor("down_proj_bias", (config.count, hidden))[chosen]
    read = _packed if f"{experts.prefix}down_proj_blocks" in experts.checkpoint.names else _plain
    return Experts(
        router=reader.whole("router", config.count, hidden, bias=True),
        route=choose_then_softmax,
        count=config.count,
        active=config.active,
        first=held.start,
        gate_up=read(
            experts,
            "gate_up_proj",
            (config.count, 2 * config.width, hidden),
            (chosen, rows, ALL),
            torch.cat((gate_up_bias[:, 0::2], gate_up_bias[:, 1::2]), dim=1),
            _gate_then_up,
        ),
        down=read(
            experts,
            "down_proj",
            (config.count, hidden, config.width),
            (chosen, ALL, columns),
            down_bias.clone() if inside.shard.adds_bias else None,
            torch.clone,
        ),
        activation=clamped_swiglu,
    )


def _held(reader: LayerReader, config: ExpertsConfig) -> tuple[range, LayerReader]:
    """Experts of this shard, and what reads them: some experts whole, or a part of each."""
    if not reader.shard.whole_experts:
        return range(config.count), reader
    span = reader.shard.experts(config.count)
    return range(span.start, span.stop), replace(reader, shard=WHOLE)


def _plain(
    reader: LayerReader,
    name: str,
    shape: tuple[int, int, int],
    kept: tuple[slice, slice, slice],
    bias: torch.Tensor | None,
    arranged: Callable[[torch.Tensor], torch.Tensor],
) -> ExpertMatrices:
    """Published as (experts, inputs, outputs)."""
    experts, outputs, inputs = kept
    count, rows, columns = shape
    stored = reader.stored(name, (count, columns, rows))[experts]

    def read(expert: int) -> torch.Tensor:
        placed = stored[expert].T[outputs, inputs].to(device=reader.device, dtype=reader.dtype)
        return arranged(placed.contiguous())

    size = len(range(rows)[outputs]), len(range(columns)[inputs])
    return expert_matrices([partial(read, expert) for expert in range(len(stored))], size, bias, reader.like)


def _packed(
    reader: LayerReader,
    name: str,
    shape: tuple[int, int, int],
    kept: tuple[slice, slice, slice],
    bias: torch.Tensor | None,
    arranged: Callable[[torch.Tensor], torch.Tensor],
) -> ExpertMatrices:
    """Published in MXFP4 (experts, outputs, inputs / 32, 16), and kept so: whole blocks, also where a cut goes through
    one."""
    experts, outputs, inputs = kept
    count, rows, columns = shape
    span = range(columns)[inputs]
    first, end = span.start // BLOCK_WEIGHTS, -(-span.stop // BLOCK_WEIGHTS)
    many = count, rows, columns // BLOCK_WEIGHTS
    blocks = reader.stored(f"{name}_blocks", (*many, BLOCK_WEIGHTS // 2))[experts, outputs, first:end]
    scales = reader.stored(f"{name}_scales", many)[experts, outputs, first:end]
    held = slice(span.start - first * BLOCK_WEIGHTS, span.stop - first * BLOCK_WEIGHTS)
    codes, exponents = _each(blocks, arranged).to(reader.device), _each(scales, arranged).to(reader.device)
    if runs_triton(reader.device) and held.start % 2 == 0:
        return PackedExperts(mxfp4_operand(codes, exponents, held, bias), len(codes))
    return Mxfp4Matrices(codes, exponents, held, bias)


def _each(experts: torch.Tensor, arranged: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A copy, expert by expert, so that the mapped file can be let go."""
    made = torch.empty(experts.shape, dtype=experts.dtype)
    for expert, rows in enumerate(experts):
        made[expert] = arranged(rows)
    return made


def _gate_then_up(rows: torch.Tensor) -> torch.Tensor:
    """Rows 0, 2, 4, … (gate), then 1, 3, 5, … (up)."""
    return torch.cat((rows[0::2], rows[1::2]))
