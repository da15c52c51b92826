"""The same matrix of every expert of a layer, multiplied with the rows of all of them at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch.nn import functional

from agents.engines.torch_engine.linear import Projection, packed
from agents.engines.torch_engine.sorted_rows import SortedRows


class ExpertMatrices(Protocol):
    @property
    def waits_for_router(self) -> bool:
        """Tell whether the processor has to see what the router chose before it can ask for the products."""

    def __len__(self) -> int:
        """Count the held experts."""

    def __call__(self, rows: torch.Tensor, at: SortedRows) -> torch.Tensor:
        """(visits, inputs) → (visits, outputs). What comes for visits of experts that are not held means nothing."""


def one_by_one(
    rows: torch.Tensor,
    at: SortedRows,
    outputs: int,
    products: Callable[[Sequence[int], Sequence[torch.Tensor]], Iterable[torch.Tensor]],
) -> torch.Tensor:
    """Multiply each expert's rows by themselves: `products(experts that have rows, rows of each)`. Waits for what the
    router chose."""
    ends = at.ends.tolist()
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    rest = len(rows) - ends[-1]
    *pieces, _ = rows.split_with_sizes([*sizes, rest])
    visited = [expert for expert, size in enumerate(sizes) if size]
    made = list(products(visited, [pieces[expert] for expert in visited]))
    if rest or not made:
        made.append(rows.new_zeros(rest, outputs))
    return torch.cat(made)


@dataclass(frozen=True, slots=True, eq=False)
class SeparateMatrices:
    """One by one: in the layout that the processor multiplies fastest, or quantised."""

    linears: tuple[Projection, ...]
    outputs: int
    waits_for_router: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.linears)

    def __call__(self, rows: torch.Tensor, at: SortedRows) -> torch.Tensor:
        return one_by_one(rows, at, self.outputs, self._products)

    def _products(self, experts: Sequence[int], pieces: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        return (self.linears[expert](piece) for expert, piece in zip(experts, pieces, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class GroupedMatrices:
    """All in one operation, which finds its rows on the device."""

    weight: torch.Tensor
    """(experts, outputs, inputs)"""
    bias: torch.Tensor | None
    """(experts, outputs)"""

    @property
    def waits_for_router(self) -> bool:
        """Return whether torch has no such product for them, and multiplies one by one."""
        return self.weight.dtype != torch.bfloat16 or torch.cuda.get_device_capability(self.weight.device)[0] not in (
            9,
            10,
        )

    def __len__(self) -> int:
        return len(self.weight)

    def __call__(self, rows: torch.Tensor, at: SortedRows) -> torch.Tensor:
        product: torch.Tensor = functional.grouped_mm(rows, self.weight.transpose(1, 2), offs=at.ends)
        return product if self.bias is None else product + self.bias[at.expert.clamp(max=len(self) - 1)]


def is_grouped(device: torch.device) -> bool:
    """Tell whether experts are multiplied in one operation there. On a CPU that saves little, oneDNN's layout much."""
    return device.type != "cpu" and hasattr(functional, "grouped_mm")


def expert_matrices(
    weights: Sequence[Callable[[], torch.Tensor]], shape: tuple[int, int], bias: torch.Tensor | None, like: torch.Tensor
) -> ExpertMatrices:
    """`weights`: read the (outputs, inputs) matrix of one expert each, of `shape`. `like`: data type and device."""
    if not is_grouped(like.device):
        offsets = [None] * len(weights) if bias is None else list(bias)
        return SeparateMatrices(tuple(packed(read(), b) for read, b in zip(weights, offsets, strict=True)), shape[0])
    stack = torch.empty(len(weights), *shape, dtype=like.dtype, device=like.device)
    for expert, read in enumerate(weights):
        stack[expert] = read()
    return GroupedMatrices(stack, bias)
