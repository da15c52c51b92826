"""Reads the experts of one layer, as each family publishes them."""

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
from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.mxfp4 import dequantised

BLOCK_WEIGHTS = 32


def qwen_experts(reader: LayerReader, config: ExpertsConfig, hidden: int) -> Experts:
    """Each expert has its own gate, up and down projections."""
    each = [reader.under(f"experts.{i}.") for i in range(config.count)]
    return Experts(
        router=reader.linear("gate", config.count, hidden),
        route=softmax_choose_normalise if config.normalised else softmax_then_choose,
        active=config.active,
        gate_up=tuple(e.joined(("gate_proj", "up_proj"), (config.width,) * 2, hidden, bias=False) for e in each),
        down=tuple(e.linear("down_proj", hidden, config.width) for e in each),
        activation=swiglu,
    )


def gpt_oss_experts(reader: LayerReader, config: ExpertsConfig, hidden: int) -> Experts:
    """All experts are stacked in one tensor, gate and up rows alternate, and every projection has a bias."""
    experts = reader.under("experts.")
    gate_up = _stacked(experts, "gate_up_proj", config.count, 2 * config.width, hidden)
    down = _stacked(experts, "down_proj", config.count, hidden, config.width)
    return Experts(
        router=reader.linear("router", config.count, hidden, bias=True),
        route=choose_then_softmax,
        active=config.active,
        gate_up=tuple(Linear(_gate_then_up(e.weight), _gate_then_up(e.bias)) for e in gate_up),
        down=down,
        activation=clamped_swiglu,
    )


def _stacked(reader: LayerReader, name: str, count: int, rows: int, columns: int) -> tuple[Linear, ...]:
    """Published in MXFP4 (experts, rows, columns / 32, 16), or as plain numbers (experts, columns, rows)."""
    biases = reader.tensor(f"{name}_bias", (count, rows))
    if f"{reader.prefix}{name}_blocks" in reader.checkpoint.names:
        blocks = reader.stored(f"{name}_blocks", (count, rows, columns // BLOCK_WEIGHTS, BLOCK_WEIGHTS // 2))
        scales = reader.stored(f"{name}_scales", (count, rows, columns // BLOCK_WEIGHTS))
        each = (dequantised(block, scale) for block, scale in zip(blocks, scales, strict=True))
    else:
        each = (weight.T for weight in reader.stored(name, (count, columns, rows)))
    placed = (w.to(device=reader.device, dtype=reader.dtype).clone(memory_format=torch.contiguous_format) for w in each)
    return tuple(Linear(weight, bias) for weight, bias in zip(placed, biases, strict=True))


def _gate_then_up(rows: torch.Tensor | None) -> torch.Tensor:
    """Rows 0, 2, 4, … (gate), then 1, 3, 5, … (up)."""
    if rows is None:
        raise TypeError("gpt-oss projections have biases")
    return torch.cat((rows[0::2], rows[1::2]))
