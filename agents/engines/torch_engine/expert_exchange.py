"""Experts that are spread over all replicas of a node: each rank holds some whole, and computes them for rows of all.

Attention is data parallel, the experts are not: so every replica takes part in the steps of the others, with no rows of
its own where it has none.
"""

from collections.abc import Callable

import torch


class ExpertExchange:
    """Exchange of rows between the ranks that share a layer's experts. Not thread-safe: one rank uses it, for one step
    at a time."""

    def __init__(
        self, rank: int, size: int, replicas: int, total: Callable[[torch.Tensor], torch.Tensor], device: torch.device
    ) -> None:
        """`rank` of `size`, replica by replica, each of equally many tensor-parallel ranks. `total`: sums a tensor over
        all of them; every rank calls it equally often."""
        self.rank, self.size = rank, size
        self._replica, within = divmod(rank, size // replicas)
        self._speaks = within == 0
        """Ranks of one replica have the same rows: one of them tells the others."""
        self._replicas = replicas
        self._total = total
        self._device = device
        self._rows = 0
        self._own = slice(0, 0)

    def span(self, experts: int) -> slice:
        """Return which of `experts` experts are held here."""
        part = experts // self.size
        return slice(self.rank * part, (self.rank + 1) * part)

    def begin(self, rows: int) -> None:
        """A step, of so many rows here."""
        counts = torch.zeros(self._replicas, dtype=torch.int64, device=self._device)
        if self._speaks:
            counts[self._replica] = rows
        every = self._total(counts).tolist()
        before = sum(every[: self._replica])
        self._rows, self._own = sum(every), slice(before, before + rows)

    def run(self, experts: Callable[[torch.Tensor], torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        """Return what all experts together make of this replica's rows, (rows, hidden) each. `experts` computes those
        held here."""
        every = rows.new_zeros(self._rows, rows.shape[1])
        if self._speaks:
            every[self._own] = rows
        return self._total(experts(self._total(every)))[self._own]
