"""A step under way, and what comes back of it."""

from dataclasses import dataclass

from agents.messages.to_gateway import TokenLogprobs
from agents.scheduler.orders import GroupStep, StepEntry


class BadResultError(Exception):
    """A stage reported what it was not asked for, or less: its cache can no longer be trusted."""


@dataclass(frozen=True, slots=True)
class Sampled:
    tokens: tuple[int, ...]
    """Those of the draft that were right, and the one behind them."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each where they were asked for."""

    def answers(self, entry: StepEntry) -> bool:
        """Tell whether it may be what was sampled for an entry."""
        right = self.tokens[:-1]
        return bool(self.tokens) and right == entry.draft[: len(right)]


@dataclass(frozen=True, slots=True)
class Pooled:
    """State of a prompt: fp32, little-endian."""

    state: bytes


@dataclass(slots=True)
class Flight:
    step: GroupStep
    awaited: set[int]
    """Nodes of the last stage that have not reported."""
    results: dict[int, Sampled | Pooled]
    """By run."""
