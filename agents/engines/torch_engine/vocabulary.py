"""What a decoder begins and ends with: the embedding of tokens, and the logits of the next one."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.norm import Norm
from agents.weights.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyPart:
    """Consecutive tokens of the vocabulary that are held here; other ranks hold the rest."""

    tokens: int
    """Of the whole vocabulary."""
    first: int
    held: int
    total: Callable[[torch.Tensor], torch.Tensor]
    """Sums a tensor over the ranks."""

    @property
    def is_whole(self) -> bool:
        return self.held == self.tokens


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """Rows of a matrix that is not held: they are looked up in the checkpoint, which stays open for it."""

    checkpoint: Checkpoint
    name: str
    first: int
    """Row that is number 0 here."""
    dtype: torch.dtype

    def __getitem__(self, numbers: torch.Tensor) -> torch.Tensor:
        """(n,) → (n, columns)"""
        return self.checkpoint.read_rows(self.name, numbers + self.first).to(self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    weight: torch.Tensor | StoredRows
    """(held tokens, hidden)"""
    part: VocabularyPart

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(tokens,) → (tokens, hidden). The sum over the ranks is exact: all but one of its terms are zero."""
        if self.part.is_whole:
            return self.weight[token_ids]
        local = token_ids - self.part.first
        is_elsewhere = (local < 0) | (local >= self.part.held)
        rows = self.weight[local.clamp(0, self.part.held - 1)]
        return self.part.total(rows.masked_fill(is_elsewhere[:, None], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class LanguageHead:
    """Norm and projection to logits that follow the model's last layer."""

    norm: Norm
    projection: Linear
    """Onto the held tokens."""
    part: VocabularyPart

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Hidden states (n, hidden) → fp32 logits (n, vocabulary), the same on every rank."""
        logits = self.projection(self.norm(rows))
        if self.part.is_whole:
            return logits.to(torch.float32)
        every = logits.new_zeros(len(logits), self.part.tokens)
        every[:, self.part.first : self.part.first + self.part.held] = logits
        return self.part.total(every).to(torch.float32)
