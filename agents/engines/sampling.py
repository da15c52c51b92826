"""Choice of the next token of a request."""

import math
from dataclasses import dataclass

MAX_LOGPROBS = 20
"""The most alternatives the OpenAI API lets a client ask for."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The choice is a function of these values, the logits and the token's position: no generator carries state, so a
    request that goes on elsewhere after a failure gets the token it would have got."""

    temperature: float = 0.0
    """0 is greedy: the likeliest token, the lowest id among equals."""
    top_p: float = 1.0
    top_k: int = 0
    """0: all tokens."""
    seed: int = 0
    stop_token_ids: tuple[int, ...] = ()
    """A sampled token among these is returned with `stop` set; stop strings are the caller's."""
    logprobs: int | None = None
    """None: no log probabilities. n ≥ 0: the sampled token's, and the n likeliest alternatives."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 100):
            raise ValueError(f"temperature must be in [0, 100], is {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], is {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (all) or more, is {self.top_k}")
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise ValueError(f"logprobs must be in [0, {MAX_LOGPROBS}], is {self.logprobs}")


GREEDY = Sampling()
