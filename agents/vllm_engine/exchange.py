"""Messages between an instance's scheduler and the engine's thread."""

from dataclasses import dataclass

from agents.messages.to_gateway import FinishReason, TokenLogprobs
from agents.messages.to_scheduler import Sampling


@dataclass(frozen=True, slots=True)
class Ask:
    """Compute one request."""

    id: str
    tokens: tuple[int, ...]
    """Prompt, and the output so far."""
    max_new_tokens: int
    stop_ids: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Made:
    """Outcome of one step for one request."""

    id: str
    ids: tuple[int, ...]
    """A stop token that ends the output is the last of them."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each of `ids` where they were asked for; the chosen token may come after the alternatives."""
    reason: FinishReason | None = None
    cached_tokens: int = 0
    """Of the tokens asked with, found in vLLM's prefix cache."""
    refusal: str = ""
    """Why vLLM does not take the request, or has given it up."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    running: int
    kv_blocks: int
    kv_blocks_free: int
    """Blocks that hold nothing but reusable prefixes are free."""
