"""Rows of a step in the order of the experts that they go to."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class SortedRows:
    """Each row of a step goes to several experts, so it stands here as often. Made on the device alone: nothing waits
    for what the router chose."""

    row: torch.Tensor
    """(visits,) of the step."""
    rank: torch.Tensor
    """(visits,) place among the row's choices, flattened: row × active + which."""
    expert: torch.Tensor
    """(visits,) number among the held experts, rising; their count where another shard holds the expert."""
    ends: torch.Tensor
    """(experts,) int32: where the visits of each held expert end."""


def sorted_rows(chosen: torch.Tensor, first: int, held: int, every: bool) -> SortedRows:
    """`chosen`: (tokens, active) experts. `first`: of the `held` experts. `every`: there are no others."""
    local = chosen.flatten()
    if not every:
        local = local - first
        local = local.masked_fill((local < 0) | (local >= held), held)
    expert, rank = local.sort(stable=True)
    bounds = torch.arange(held, device=chosen.device)
    ends = torch.searchsorted(expert, bounds, right=True, out_int32=True)
    return SortedRows(rank // chosen.shape[1], rank, expert, ends)
