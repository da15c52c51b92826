"""Smooth weighted round-robin: members are picked in proportion to their weights, and evenly in time.

The rule is nginx's: every member gains its share, the richest is picked and pays one. A credit is by how many picks a
member is behind its due (above 0) or ahead of it. It is the cup game with the fullest cup emptied, so no one is ever
ahead by 1 or more, or behind by more than the harmonic number of the count of members.
"""

from collections.abc import Collection, Mapping

_NOBODY: frozenset[str] = frozenset()


class SmoothWrr:
    """Members may come, go and change their weight at any time; equal histories give equal picks."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._weights: dict[str, float] = {}
        self._credits: dict[str, float] = {}
        if weights:
            self.set_weights(weights)

    @property
    def weights(self) -> Mapping[str, float]:
        return self._weights

    @property
    def credits(self) -> Mapping[str, float]:
        """Picks that each member is behind its due; they sum to 0."""
        return self._credits

    def twin(self) -> "SmoothWrr":
        """Make another one with the same history."""
        other = SmoothWrr()
        other._weights, other._credits = self._weights, dict(self._credits)
        return other

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Replace the members. Who stays keeps its credit, who is new starts with none: no burst for a newcomer.

        What the leavers were owed, or owe, is shared by those who stay, by weight. Raises ValueError on a weight that
        is not above 0.
        """
        wrong = sorted(name for name, weight in weights.items() if not 0 < weight < float("inf"))
        if wrong:
            raise ValueError(f"weights must be above 0 and finite: {', '.join(wrong)}")
        stay = {name: self._credits.get(name, 0.0) for name in sorted(weights)}
        rest = sum(stay.values())
        total = sum(weights.values())
        self._credits = {name: credit - rest * weights[name] / total for name, credit in stay.items()}
        self._weights = {name: weights[name] for name in self._credits}

    def pick(self, skip: Collection[str] = _NOBODY) -> str | None:
        """The next member; None when `skip` leaves none. Who is skipped neither gains nor loses."""
        eligible = self._weights if not skip else {n: w for n, w in self._weights.items() if n not in skip}
        if not eligible:
            return None
        total = sum(eligible.values())
        best, most = None, -float("inf")
        for name, weight in eligible.items():
            credit = self._credits[name] = self._credits[name] + weight / total
            if credit > most + 1e-9:  # ties go to the first name, whatever the rounding
                best, most = name, credit
        assert best is not None  # noqa: S101
        self._credits[best] -= 1.0
        return best
