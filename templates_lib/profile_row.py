"""One measurement of a stage: what a step held, and how long it took."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """Mean of repeated steps of one engine that was alone on its node. Counts are of a whole step."""

    layers: int
    first: bool
    """The token embedding was held."""
    last: bool
    """The final norm and LM head were held."""
    prompt_tokens: int
    prompt_context: float
    """Mean number of earlier tokens that a prompt token attended to."""
    decode_requests: int
    decode_context: float
    """Mean tokens in the cache of those requests."""
    seconds: float
    held_out: bool
    """Not fitted: the fit is judged by it."""
