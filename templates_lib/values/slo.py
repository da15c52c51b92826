"""Service-level objectives of a request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency objectives of one model.

    Time to first token may be `ttft_ms + ttft_ms_per_1k_prompt_tokens · prompt / 1000`; longer prompts than
    `max_prompt_tokens` (0: no limit) are a class of their own.
    """

    ttft_ms: float
    tpot_ms: float
    ttft_ms_per_1k_prompt_tokens: float = 0.0
    percentile: float = 99.0
    max_prompt_tokens: int = 0
    queueing: bool = False
    """Templates are certified for what `percentile` of the requests meet when they come at random (Poisson), waiting
    included; without, for a request of that percentile's length alone."""
    refuses_late: bool = False
    """What no instance can begin in time any more is refused, as long as its client has nothing of the answer yet;
    without, it is served last."""

    def first_token_ms(self, prompt_tokens: float) -> float:
        """Time that the first token may take."""
        return self.ttft_ms + self.ttft_ms_per_1k_prompt_tokens * prompt_tokens / 1000
