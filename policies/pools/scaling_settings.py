"""When a pool grows and shrinks between two plans, for a policy of scaling."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    threshold: float = 0.99
    """Share of the answers of the last minute that have to be in time."""
    clear_s: float = 10.0
    """Time in which what waits is to be done, beside what comes."""
    calm_s: float = 180.0
    """How long less would have to be enough until there is less."""
    band: float = 0.2
    """By how much more load than there was less has to be enough for."""
    most_rented: int = 1000
    """Members that may be rented at once: what limits and budget leave, in the cheapest way that the plan priced."""
