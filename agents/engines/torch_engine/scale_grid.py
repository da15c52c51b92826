"""Numbers that parts of a matrix share: scales, or zero points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

Rows = slice | torch.Tensor
"""Some of a matrix's outputs, by their numbers where they are no slice."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaleGrid:
    """A number for each rectangle of a matrix."""

    values: torch.Tensor
    """(rows, columns), in the type in which they are published."""
    width: int = 0
    """Inputs that share a column; 0: all do."""
    row_of: torch.Tensor | None = None
    """(outputs,): the row of `values` that is an output's, in the narrowest type; None: each output has its own. Cut
    and joined matrices begin anywhere in a block."""
    first_input: int = 0
    """Where in the first column's rectangle the inputs begin."""
    column_of: torch.Tensor | None = None
    """(inputs,): the column that is an input's, where they are in no order (GPTQ with `desc_act`)."""

    def combined(
        self, values: torch.Tensor, outputs: Rows, combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Return what `combine` makes of fp32 `values` (outputs, inputs) and the numbers of these outputs."""
        rows = outputs if self.row_of is None else taken(self.row_of, outputs).long()
        numbers = taken(self.values, rows).to(torch.float32)
        if numbers.shape[1] == 1:
            return combine(values, numbers)
        if self.column_of is not None:
            return combine(values, numbers[:, self.column_of.long()])
        inputs = values.shape[1]
        if numbers.shape[1] * self.width == inputs:  # so that numbers need not be written once for each weight
            return combine(values.reshape(len(values), -1, self.width), numbers[:, :, None]).flatten(1)
        spread = numbers.repeat_interleave(self.width, dim=1)
        return combine(values, spread[:, self.first_input : self.first_input + inputs])

    def part(self, outputs: slice, inputs: slice) -> "ScaleGrid":
        """Return a copy for a part of the matrix."""
        grid = self
        if grid.row_of is None:
            grid = replace(grid, values=grid.values[outputs])
        else:
            rows = grid.row_of[outputs].long()
            first, end = int(rows.min()), int(rows.max()) + 1
            grid = replace(grid, values=grid.values[first:end], row_of=narrow(rows - first, end - first))
        if grid.column_of is not None:
            grid = replace(grid, column_of=grid.column_of[inputs].clone())
        elif grid.values.shape[1] > 1:
            start, stop = grid.first_input + inputs.start, grid.first_input + inputs.stop
            first = start // grid.width
            columns = slice(first, -(-stop // grid.width))
            grid = replace(grid, values=grid.values[:, columns], first_input=start - first * grid.width)
        return replace(grid, values=grid.values.clone(memory_format=torch.contiguous_format))

    def to(self, device: torch.device) -> "ScaleGrid":
        row_of, column_of = (None if each is None else each.to(device) for each in (self.row_of, self.column_of))
        return replace(self, values=self.values.to(device), row_of=row_of, column_of=column_of)

    def alike(self, other: "ScaleGrid") -> bool:
        """Tell whether both matrices' inputs share columns in the same way, so that they can be joined."""
        ours, theirs = self.column_of, other.column_of
        ordered = ours is None if theirs is None else ours is not None and torch.equal(ours, theirs)
        geometry = (self.width, self.first_input, self.row_of is None, self.values.shape[1])
        return ordered and geometry == (other.width, other.first_input, other.row_of is None, other.values.shape[1])


def joined_grids(grids: Sequence[ScaleGrid]) -> ScaleGrid:
    """Return the grid of matrices below each other, which are `alike`."""
    values = torch.cat([_bytes(grid.values) for grid in grids]).view(grids[0].values.dtype)
    rows, before = [], 0
    for grid in grids:
        if grid.row_of is not None:
            rows.append(grid.row_of.long() + before)
            before += len(grid.values)
    return replace(grids[0], values=values, row_of=narrow(torch.cat(rows), before) if rows else None)


def narrow(numbers: torch.Tensor, end: int) -> torch.Tensor:
    """Return numbers below `end` in the narrowest type."""
    types = ((1 << 8, torch.uint8), (1 << 15, torch.int16))
    return numbers.to(next((dtype for most, dtype in types if end <= most), torch.int32))


def taken(values: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return some rows, also of types of 8 bits, which torch does not gather."""
    return values[rows] if isinstance(rows, slice) else _bytes(values)[rows].view(values.dtype)


def _bytes(values: torch.Tensor) -> torch.Tensor:
    return values.view(torch.uint8) if values.dtype == torch.float8_e4m3fn else values
