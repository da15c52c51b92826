"""An encoder read out of a checkpoint, and what its reader knows of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import UnitKind

Encode = Callable[[Sequence[EncoderUnit]], list[torch.Tensor]]
"""Units → their rows, on the device."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadEncoder:
    takes: UnitKind
    row_width: int
    encode: Encode
    hidden_size: int
    ffn_width: int
    """Of a layer, gate and up together."""


def placed(values: Sequence[EncoderUnit], like: torch.Tensor) -> list[torch.Tensor]:
    """Values of units in the data type and on the device of `like`."""
    return [torch.from_numpy(unit.values).to(like) for unit in values]
