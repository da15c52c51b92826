"""Pending work of the members of a pool, as a gateway knows it: what each reported last, and what the gateway sent
there since (ModServe, section 4.3).

A report says how many of this gateway's pieces of work the member had received when it was made. What was sent later is
counted on top of it, so that nothing is counted twice and nothing is forgotten, however long a report was on its way.
What other gateways sent since is not known: with several of them a choice is off by that, and no more.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf

_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Member:
    units_per_s: float
    reported: float = 0.0
    """Units that were pending by its last report, whoever sent them."""
    sent: int = 0
    """Pieces of work that this gateway sent there in all."""
    unseen: deque[tuple[int, float]] = field(default_factory=deque)
    """(number, units) of those that its last report did not know of."""
    unseen_units: float = 0.0

    @property
    def pending_s(self) -> float:
        return (self.reported + self.unseen_units) / self.units_per_s


class PendingWork:
    """Seconds of work that wait at each member. Units are whatever the pool's capacity is counted in: image tokens of
    encoders, prompt tokens of text instances."""

    def __init__(self, units_per_s: Mapping[str, float]) -> None:
        """`units_per_s`: capacity of each member by its id. Raises ValueError for one that is not above 0."""
        self._members: dict[str, _Member] = {}
        self.update(units_per_s)

    def update(self, units_per_s: Mapping[str, float]) -> None:
        """Take the members that there are now. What is known of those that stay counts on."""
        for member, rate in units_per_s.items():
            if not 0 < rate < inf:
                raise ValueError(f"member {member}: its capacity is {rate} units/s; give more than 0, and a number")
        before, self._members = self._members, {}
        for member, rate in units_per_s.items():
            known = self._members[member] = before.get(member) or _Member(rate)
            known.units_per_s = rate

    def pending_s(self, member: str) -> float:
        """Seconds in which the member has done all that is known to wait there. Raises KeyError for no member."""
        return self._members[member].pending_s

    def least(self, unusable: Collection[str] = _NOBODY) -> str | None:
        """Name the member that is done first with what it has; of equals the one that was sent least. None: there is
        none that can be used."""
        able = ((each.pending_s, each.sent, name) for name, each in self._members.items() if name not in unusable)
        return min(able, default=(0.0, 0, None))[2]

    def send(self, member: str, units: float) -> None:
        """Note a piece of work that is sent to the member."""
        own = self._members[member]
        own.sent += 1
        own.unseen.append((own.sent, units))
        own.unseen_units += units

    def report(self, member: str, units: float, received: int) -> None:
        """Take what the member says: units that are pending there, of all gateways, when it had received `received`
        pieces of work of this one. A report of a member that left is nothing."""
        own = self._members.get(member)
        if own is None:
            return
        own.reported = units
        while own.unseen and own.unseen[0][0] <= received:
            own.unseen.popleft()
        own.unseen_units = sum(each for _, each in own.unseen)
