"""What a general solver found for a placement ILP."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    units_per_s: float
    """Of the best placement found; 0: none."""
    bound_units_per_s: float
    """No placement does better."""
    proven: bool
    status: str
    """The solver's own word."""
