"""Pending work of the members of a pool, as a gateway knows it: what it has there, and what each told last of others'
(ModServe, section 4.3).

What a gateway sent and has no answer to is known exactly; reports add what the other gateways have. What these sent
since a report is not known: a choice is off by that, and no more.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class _Member:
    units_per_s: float
    own: float = 0.0
    """Units that this gateway sent there, and that are not done."""
    others: float = 0.0
    """Of the other gateways, by its last report."""
    sent: int = 0
    """Pieces of work that this gateway sent there in all."""

    @property
    def pending_s(self) -> float:
        return (self.own + self.others) / self.units_per_s


class PendingWork:
    """Seconds of work that wait at each member. Units are whatever the pool's capacity is counted in: image tokens of
    encoders, prompt tokens of text instances."""

    def __init__(self, units_per_s: Mapping[str, float]) -> None:
        """`units_per_s`: capacity of each member by its id. Raises ValueError for one that is not above 0."""
        self._members: dict[str, _Member] = {}
        self.update(units_per_s)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def update(self, units_per_s: Mapping[str, float]) -> None:
        """Take the members that there are now. What is known of those that stay counts on."""
        for member, rate in units_per_s.items():
            if not 0 < rate < inf:
                raise ValueError(f"member {member}: its capacity is {rate} units/s; give more than 0, and a number")
        before, self._members = self._members, {}
        for member, rate in units_per_s.items():
            known = self._members[member] = before.get(member) or _Member(rate)
            known.units_per_s = rate

    def seconds(self, member: str, units: float) -> float:
        """Time that the member takes for so much work. Raises KeyError for no member."""
        return units / self._members[member].units_per_s

    def pending_s(self, member: str) -> float:
        """Seconds in which the member has done all that is known to wait there. Raises KeyError for no member."""
        return self._members[member].pending_s

    def least(self, among: Collection[str] | None = None) -> str | None:
        """Name the member that is done first with what it has; of equals the one that was sent least. `among`: those
        that can be used; None: all. None: there is none."""
        names = self._members if among is None else self._members.keys() & among
        able = ((self._members[name].pending_s, self._members[name].sent, name) for name in names)
        return min(able, default=(0.0, 0, None))[2]

    def send(self, member: str, units: float) -> None:
        """Note a piece of work that is sent to the member. Raises KeyError for no member."""
        own = self._members[member]
        own.sent += 1
        own.own += units

    def done(self, member: str, units: float) -> None:
        """Note that so much of what this gateway sent there waits no more: it is done, or was lost. Of a member that
        left it is nothing."""
        own = self._members.get(member)
        if own is not None:
            own.own = max(0.0, own.own - units)

    def told(self, member: str, others: float) -> None:
        """Take what the member says: units that it has of other gateways. A report of a member that left is nothing."""
        own = self._members.get(member)
        if own is not None:
            own.others = others
