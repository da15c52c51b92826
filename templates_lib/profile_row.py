"""What a node that measures itself writes down."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Header:
    """Comes first."""

    points: int
    """How many measurements follow."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A step of one engine that was alone on its node, repeated. Counts are of the whole step."""

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
    """Mean of the repetitions."""
    held_out: bool
    """Not fitted: the fit is judged by it."""
