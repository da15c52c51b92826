"""The pools of an app, as a plan has them, and the rates of requests that they sustain.

An app is planned for by a number of requests of its planned mix. What comes is counted in units of each pool: pictures
may be more, and answers longer, than those that were planned for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policies.pools.sizing import replicas


@dataclass(frozen=True, slots=True)
class AppPools:
    members: Mapping[str, Sequence[float]]
    """Work class → units/s that a plan may have each of its instances do; one at least."""
    units: Mapping[str, float]
    """Work class → units of one request, the mean of the planned mix; also of classes without instances."""

    def requests_per_s(self, units_per_s: Mapping[str, float]) -> float:
        """The fewest requests/s of the planned mix that ask every pool for as much as this load does."""
        return max((units_per_s.get(name, 0.0) / each for name, each in self.units.items() if each > 0), default=0.0)

    @property
    def sustained(self) -> float:
        """Requests/s of the planned mix; 0 without members."""
        return min(map(self._sustained, self._known), default=0.0)

    def with_one_more(self, units_per_s: Mapping[str, float]) -> float:
        """Requests/s of the planned mix that ask the busiest pool for one more than it has, a mean one of its
        members; 0 without members."""
        if not self._known:
            return 0.0
        busiest = self._busiest(units_per_s)
        return self._sustained(busiest) * (1 + 1 / len(self.members[busiest]))

    def asked_of_busiest(self, units_per_s: Mapping[str, float]) -> tuple[int, int]:
        """(members that the busiest pool has, members that this load asks it for); (0, 0) without members."""
        if not self._known:
            return 0, 0
        busiest = self._busiest(units_per_s)
        members = self.members[busiest]
        return len(members), replicas(units_per_s.get(busiest, 0.0), sum(members) / len(members))

    def _busiest(self, units_per_s: Mapping[str, float]) -> str:
        return max(self._known, key=lambda name: units_per_s.get(name, 0.0) / sum(self.members[name]))

    @property
    def _known(self) -> list[str]:
        """Pools that requests of the planned mix visit."""
        return [name for name in self.members if self.units.get(name, 0.0) > 0]

    def _sustained(self, name: str) -> float:
        return sum(self.members[name]) / self.units[name]
