"""Reads the experts of one layer, as each family publishes them."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from agents.engines.torch_engine.decoder_config import ExpertsConfig
from agents.engines.torch_engine.experts import (
    Experts,
    choose_then_softmax,
    clamped_swiglu,
    softmax_choose_normalise,
    softmax_then_choose,
    swiglu,
)
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import packed
from agents.engines.torch_engine.mxfp4 import dequantised
from agents.engines.torch_engine.shard import WHOLE

BLOCK_WEIGHTS = 32


def qwen_experts(reader: LayerReader, config: ExpertsConfig, hidden: int) -> Experts:
    """Each expert has its own gate, up and down projections."""
    held, inside = _held(reader, config)
    each = [inside.under(f"experts.{i}.") for i in held]
    return Experts(
        router=reader.whole("gate", config.count, hidden),
        route=softmax_choose_normalise if config.normalised else softmax_then_choose,
        active=config.active,
        first=held.start,
        gate_up=tuple(
            expert.into(("gate_proj", "up_proj"), (expert.cut(config.width),) * 2, hidden) for expert in each
        ),
        down=tuple(expert.out_of("down_proj", hidden, config.width) for expert in each),
        activation=swiglu,
    )


def gpt_oss_experts(reader: LayerReader, config: ExpertsConfig, hidden: int) -> Experts:
    """All experts are stacked in one tensor, gate and up rows alternate, and every projection has a bias."""
    held, inside = _held(reader, config)
    experts = inside.under("experts.")
    columns = inside.shard.span(config.width)
    rows = slice(2 * columns.start, 2 * columns.stop)
    gate_up_bias = experts.tensor("gate_up_proj_bias", (config.count, 2 * config.width))
    down_bias = experts.tensor("down_proj_bias", (config.count, hidden))
    return Experts(
        router=reader.whole("router", config.count, hidden, bias=True),
        route=choose_then_softmax,
        active=config.active,
        first=held.start,
        gate_up=tuple(
            packed(_gate_then_up(weight[rows]), _gate_then_up(gate_up_bias[expert, rows]))
            for expert, weight in zip(
                held, _stacked(experts, "gate_up_proj", config.count, 2 * config.width, hidden, held), strict=True
            )
        ),
        down=tuple(
            packed(weight[:, columns].contiguous(), down_bias[expert] if inside.shard.adds_bias else None)
            for expert, weight in zip(
                held, _stacked(experts, "down_proj", config.count, hidden, config.width, held), strict=True
            )
        ),
        activation=clamped_swiglu,
    )


def _held(reader: LayerReader, config: ExpertsConfig) -> tuple[range, LayerReader]:
    """Experts of this shard, and what reads them: some experts whole, or a part of each."""
    if not reader.shard.whole_experts:
        return range(config.count), reader
    span = reader.shard.experts(config.count)
    return range(span.start, span.stop), replace(reader, shard=WHOLE)


def _stacked(
    reader: LayerReader, name: str, count: int, rows: int, columns: int, held: range
) -> Iterator[torch.Tensor]:
    """Weights (rows, columns) of the held experts, one by one.

    Published in MXFP4 (experts, rows, columns / 32, 16), or as plain numbers (experts, columns, rows).
    """
    chosen = slice(held.start, held.stop)
    if f"{reader.prefix}{name}_blocks" in reader.checkpoint.names:
        blocks = reader.stored(f"{name}_blocks", (count, rows, columns // BLOCK_WEIGHTS, BLOCK_WEIGHTS // 2))[chosen]
        scales = reader.stored(f"{name}_scales", (count, rows, columns // BLOCK_WEIGHTS))[chosen]
        each = (dequantised(block, scale) for block, scale in zip(blocks, scales, strict=True))
    else:
        each = (weight.T for weight in reader.stored(name, (count, columns, rows))[chosen])
    for weight in each:
        placed = weight.to(device=reader.device, dtype=reader.dtype)
        yield placed.clone(memory_format=torch.contiguous_format)


def _gate_then_up(rows: torch.Tensor) -> torch.Tensor:
    """Rows 0, 2, 4, … (gate), then 1, 3, 5, … (up)."""
    return torch.cat((rows[0::2], rows[1::2]))
