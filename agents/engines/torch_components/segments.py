"""Attention without a mask among rows that belong together: of an image, a window of it, a piece of sound."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch.nn import functional


class Segments:
    """Consecutive rows of one matrix, cut by lengths. Those of one length are attended to as one product: padding would
    cost as much as it adds, and a mask would be as large as all rows times all rows."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self._rows: list[tuple[int, torch.Tensor | None]] = []
        """(length, rows of the segments of that length; None: all rows)."""
        starts = [0, *accumulate(lengths)]
        for length in sorted(set(lengths)):
            own = [start for start, each in zip(starts, lengths, strict=False) if each == length]
            places = [torch.arange(length) + start for start in own]
            every = len(set(lengths)) == 1
            self._rows.append((length, None if every else torch.cat(places).to(device)))

    def attend(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """(rows, heads, head_dim) each → the same shape."""
        mixed = torch.empty_like(queries)
        for length, rows in self._rows:
            if rows is None:
                return _attended(queries, keys, values, length)
            mixed[rows] = _attended(queries[rows], keys[rows], values[rows], length)
        return mixed


def _attended(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, length: int) -> torch.Tensor:
    query, key, value = (each.reshape(-1, length, *each.shape[1:]).transpose(1, 2) for each in (queries, keys, values))
    return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(0, 1)
