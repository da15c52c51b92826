"""Limits of use: what a holder may ask of one gateway."""

from dataclasses import dataclass

MAX_LIMIT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class UseLimits:
    """None: no limit. Raises ValueError for one that lets nothing through."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Of prompts and answers together."""
    concurrent_requests: int | None = None
    """Requests that are open at the same time."""

    def __post_init__(self) -> None:
        given = (self.requests_per_minute, self.tokens_per_minute, self.concurrent_requests)
        if any(limit is not None and not 0 < limit <= MAX_LIMIT for limit in given):
            raise ValueError(f"a limit must be 1 to {MAX_LIMIT}; leave it out for none")

    def __bool__(self) -> bool:
        return self != NO_LIMITS


NO_LIMITS = UseLimits()
