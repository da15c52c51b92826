"""Which tokens a request has had, and how often, for rules that count them."""

from collections.abc import Iterable

import torch

from agents.engines.sampling import LogitRules

_ROOM = 64
"""Distinct tokens to begin with; more as they come."""


class TokenCounts:
    """Distinct tokens of one request's prompt and output, and how often each is in the output.

    They lie on the device of the logits and grow by one small write a token: a step never goes over the text again."""

    def __init__(self, prompt: Iterable[int], output: Iterable[int], device: torch.device) -> None:
        self._slots: dict[int, int] = {}
        """Distinct token → its place."""
        counts: list[float] = []
        for tokens, weight in ((prompt, 0.0), (output, 1.0)):
            for token in tokens:
                slot = self._slots.setdefault(token, len(counts))
                if slot == len(counts):
                    counts.append(0.0)
                counts[slot] += weight
        room = max(_ROOM, 2 * len(counts))
        self._ids = torch.zeros(room, dtype=torch.int64, device=device)
        self._counts = torch.zeros(room, dtype=torch.float32, device=device)
        if counts:
            self._ids[: len(counts)] = torch.tensor(list(self._slots), device=device)
            self._counts[: len(counts)] = torch.tensor(counts, device=device)

    def add(self, token: int) -> None:
        """Count one more token of the output."""
        slot = self._slots.setdefault(token, len(self._slots))
        if slot == len(self._ids):
            self._ids = torch.cat((self._ids, torch.zeros_like(self._ids)))
            self._counts = torch.cat((self._counts, torch.zeros_like(self._counts)))
        self._ids[slot] = token
        self._counts[slot] += 1

    def penalise(self, logits: torch.Tensor, rules: LogitRules) -> None:
        """Change `logits` (vocabulary) fp32 in place."""
        ids, counts = self._ids[: len(self._slots)], self._counts[: len(self._slots)]
        values = logits[ids]
        if rules.repetition_penalty != 1:
            penalty = rules.repetition_penalty
            values = torch.where(values > 0, values / penalty, values * penalty)
        values -= rules.frequency_penalty * counts
        values -= rules.presence_penalty * (counts > 0)
        logits[ids] = values
