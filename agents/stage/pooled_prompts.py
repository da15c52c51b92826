"""States of prompts, made of hidden states that the last stage's engine hands out step by step."""

from collections.abc import Iterator, Sequence

import torch

from agents.messages.to_scheduler import Pooling
from agents.messages.to_stage import StageEntry
from agents.messages.to_stage_scheduler import RunState


def needs_rows(entry: StageEntry) -> bool:
    """Tell whether a step must hand out the hidden states of these tokens."""
    pooled = entry.pooled
    return pooled is not None and (pooled.pooling is Pooling.MEAN or _is_end(entry))


class PooledPrompts:
    """Sums of prompts that take several steps, by run."""

    def __init__(self) -> None:
        self._sums: dict[int, torch.Tensor] = {}

    def take(self, entries: Sequence[StageEntry], rows: torch.Tensor) -> tuple[RunState, ...]:
        """Take the rows of a step in; give the states of prompts that it ended. `rows`: (tokens, hidden size), of the
        entries that `needs_rows`, in turn."""
        asked = [entry for entry in entries if needs_rows(entry)]
        parts = torch.split(rows, [entry.tokens for entry in asked])
        return tuple(self._ended(zip(asked, parts, strict=True)))

    def forget(self, run: int) -> None:
        self._sums.pop(run, None)

    def _ended(self, parts: Iterator[tuple[StageEntry, torch.Tensor]]) -> Iterator[RunState]:
        for entry, part in parts:
            if entry.pooled is None:
                continue
            if entry.pooled.pooling is Pooling.LAST:
                yield _state(entry.run, part[-1])
                continue
            # In fp32 whatever the model computes in: a mean of thousands of rows would lose digits.
            total = part.sum(0, dtype=torch.float32)
            before = self._sums.pop(entry.run, None)
            total = total if before is None else before + total
            if _is_end(entry):
                yield _state(entry.run, total / entry.pooled.tokens)
            else:
                self._sums[entry.run] = total


def _is_end(entry: StageEntry) -> bool:
    return entry.pooled is not None and entry.position + entry.tokens == entry.pooled.tokens


def _state(run: int, row: torch.Tensor) -> RunState:
    return RunState(run, row.to("cpu", torch.float32).numpy().astype("<f4").tobytes())
