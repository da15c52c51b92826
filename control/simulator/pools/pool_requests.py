"""Requests with pictures, as pools by stage meet them, and what became of them."""

from dataclasses import dataclass, field
from math import nan


@dataclass(slots=True, eq=False)
class PoolRequest:
    """A request, and the times of its life in seconds since the start; NaN where it did not come to that."""

    asked_s: float
    text_tokens: int
    output_tokens: int
    images: tuple[tuple[int, ...], ...] = ()
    """Image tokens of each part of each picture that can be encoded alone (`templates_lib.media.parts`)."""
    due_s: float = 0.0
    """How long after `asked_s` its client wants the first token."""
    encoded_s: float = nan
    """When its last row was made."""
    pulled_s: float = nan
    """When all rows were at the text instance, where they had to get there."""
    first_token_s: float = nan
    finish_s: float = nan
    encoders: dict[str, int] = field(default_factory=dict)
    """Encoder → rows that it made."""
    text_instance: str = ""

    @property
    def image_tokens(self) -> int:
        return sum(map(sum, self.images))

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.asked_s

    @property
    def tpot_s(self) -> float:
        """Mean time between tokens; NaN for a request that is not over, or of one token."""
        return (self.finish_s - self.first_token_s) / (self.output_tokens - 1) if self.output_tokens > 1 else nan
