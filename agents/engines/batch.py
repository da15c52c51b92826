"""Batch of one step of an engine: some tokens of each of several requests."""

from dataclasses import dataclass

from agents.engines.sampling import RuledText, Sampling


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The next `tokens` tokens of one request: a chunk of its prompt, or the one token sampled last."""

    id: str
    position: int
    """Tokens of this request already in the KV cache: the place of the first token of this step."""
    tokens: int
    sampling: Sampling | None = None
    """Set where a token is to be sampled after the last of these: a decode step, or the last chunk of a prompt."""
    ruled: RuledText | None = None
    """Set with the first `sampling` of a request that has rules. The engine keeps them, and counts what it chooses."""


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Requests of one step. The rows of its input and output follow this order, tokens of a request together."""

    requests: tuple[StepRequest, ...]

    @property
    def tokens(self) -> int:
        return sum(request.tokens for request in self.requests)
