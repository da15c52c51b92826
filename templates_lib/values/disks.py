"""Disks of rented nodes, as plans are charged for them: how large they are, and what their clouds ask."""

from collections.abc import Iterable
from dataclasses import dataclass

from templates_lib.values.engine_set import UNKNOWN

_HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Disks:
    usd_per_gib_month: dict[str, float]
    """Cloud → price of a GiB; nothing is charged at others, and for machines of one's own."""
    gib: dict[str, int]
    """Components that a node may hold parts of, and its engines, as `key_of` names them together → GiB of its disk;
    without engines of the largest, whatever they are."""

    def usd_per_gib_hour(self, zone: str) -> float:
        """`zone`: id of a zone, which begins with its cloud."""
        return self.usd_per_gib_month.get(zone.partition("/")[0], 0.0) / _HOURS_PER_MONTH

    def node_gib(self, components: Iterable[str], engines: str = UNKNOWN) -> int:
        """Return the disk of a node that holds parts of these components and has these engines (`engine_set`); 0 where
        it is not known."""
        held = tuple(components)
        return self.gib.get(key_of(held, engines), self.gib.get(key_of(held), 0))

    def usd_per_hour(self, zone: str, gib: int, nodes: int = 1) -> float:
        """Return the $/h of the disks of nodes in a zone, of `gib` each."""
        return nodes * gib * self.usd_per_gib_hour(zone)


NO_DISKS = Disks({}, {})


def key_of(components: Iterable[str], engines: str = UNKNOWN) -> str:
    return "+".join(sorted(set(components))) + (f"@{engines}" if engines else "")
