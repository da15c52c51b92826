"""Priorities of requests: those of a higher one are bound first (`policies.slack`)."""

from enum import StrEnum


class Priority(StrEnum):
    """The highest first: a priority's rank is its place here."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"

    @property
    def rank(self) -> int:
        """0 for the highest."""
        return RANKS[self]

    def at_most(self, ceiling: "Priority") -> "Priority":
        """The same, or the ceiling where that is lower."""
        return max(self, ceiling, key=lambda each: each.rank)


RANKS = {priority: rank for rank, priority in enumerate(Priority)}
