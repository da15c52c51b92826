"""A matrix product with weights of one layer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from templates_lib.cost.row_padding import MOST_ROWS, padded

_HAS_ONEDNN = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
_ONEDNN = {
    torch.float32: _HAS_ONEDNN,
    torch.bfloat16: _HAS_ONEDNN and torch.ops.mkldnn._is_mkldnn_bf16_supported(),
}
"""Data types that oneDNN multiplies on this processor. On a CPU, torch itself takes MKL for fp32, which on processors
not made by Intel leaves out their widest vectors: a step takes two to three times as long (`bench.torch_engine`)."""
_PACKED_FOR_ROWS = 32
"""oneDNN asks for a number of rows to lay weights out for; the layout it takes is good for a row as for hundreds."""


Projection = Callable[[torch.Tensor], torch.Tensor]
"""(tokens, inputs) → (tokens, outputs)"""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    weight: torch.Tensor
    """(outputs, inputs)"""
    bias: torch.Tensor | None = None
    """(outputs,)"""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, inputs) → (tokens, outputs)"""
        if self.weight.device.type != "cpu" or not _ONEDNN[rows.dtype]:
            return functional.linear(rows, self.weight, self.bias)
        if len(rows) > MOST_ROWS:
            return torch.cat([self(tile) for tile in torch.split(rows, MOST_ROWS)])
        added = padded(len(rows)) - len(rows)
        if not added:
            return self._product(rows)
        # Rows do not depend on each other, so those added change nothing.
        return self._product(functional.pad(rows, (0, 0, 0, added)))[: len(rows)]

    def _product(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return product


def packs(weight: torch.Tensor) -> bool:
    """Tell whether `packed` changes how the weights lie."""
    return weight.device.type == "cpu" and _ONEDNN[weight.dtype]


def packed(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """Make a product with the weights laid out for the processor, where that makes it faster: nobody else can read them
    then."""
    if packs(weight):
        weight = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR_ROWS)
    return Linear(weight, bias)
