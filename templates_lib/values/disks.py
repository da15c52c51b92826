"""Disks of rented nodes, as plans are charged for them: how large they are, and what their clouds ask."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.library import Library

_HOURS_PER_MONTH = 730


@dataclass(frozen=True, slots=True)
class Disks:
    usd_per_gib_month: dict[str, float]
    """Cloud → price of a GiB; nothing is charged at others, and for machines of one's own."""
    gib: dict[str, int]
    """Components that a node may hold parts of, as `key_of` names them together → GiB of its disk."""

    def usd_per_gib_hour(self, zone: str) -> float:
        """`zone`: id of a zone, which begins with its cloud."""
        return self.usd_per_gib_month.get(zone.partition("/")[0], 0.0) / _HOURS_PER_MONTH

    def node_gib(self, components: Iterable[str]) -> int:
        """Return the disk of a node that holds parts of these components; 0 where it is not known."""
        return self.gib.get(key_of(components), 0)

    def usd_per_hour(self, zone: str, gib: int, nodes: int = 1) -> float:
        """Return the $/h of the disks of nodes in a zone, of `gib` each."""
        return nodes * gib * self.usd_per_gib_hour(zone)

    def template_gib(self, library: Library) -> NDArray[np.int64]:
        """(n,) GiB of each node of the templates of a library."""
        sets, of_template = library.component_sets()
        return np.array([self.node_gib(each) for each in sets], dtype=np.int64)[of_template]


NO_DISKS = Disks({}, {})


def key_of(components: Iterable[str]) -> str:
    return "+".join(sorted(set(components)))
