"""All units of a set of models on nodes of several kinds, smaller ones first, while there are few enough."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from templates_lib.units.unit_capacity import MemberUse, UnitCapacity, unit_capacity
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig

MOST_UNITS = 100_000


@dataclass(frozen=True, slots=True)
class EnumeratedUnit:
    node: NodeConfig
    members: tuple[str, ...]
    """In alphabetical order."""
    capacity: UnitCapacity
    """Of the members in their order."""


@dataclass(frozen=True, slots=True)
class EnumeratedUnits:
    units: tuple[EnumeratedUnit, ...]
    members: int
    """Units of so many members and fewer are all there."""
    are_all: bool
    """No unit of more members fits any node, or may be planned."""


Uses = Mapping[str, Mapping[str, MemberUse]]
"""Node configuration → member → what it uses there; members that are not there cannot be."""


def unit_of(node: NodeConfig, members: Iterable[str], uses: Uses, gpus: Mapping[str, Gpu]) -> EnumeratedUnit | None:
    """The unit of these members on a node; None where they do not fit. `gpus`: GPU types by name."""
    names, here = tuple(sorted(members)), uses.get(node.id, {})
    if any(name not in here for name in names):
        return None
    capacity = unit_capacity([here[name] for name in names], gpus[node.gpu], node.gpu_count)
    return None if capacity is None else EnumeratedUnit(node, names, capacity)


def enumerated_units(
    uses: Uses,
    nodes: Sequence[NodeConfig],
    gpus: Mapping[str, Gpu],
    *,
    most_members: int | None = None,
    most_units: int = MOST_UNITS,
) -> EnumeratedUnits:
    """Units of one member and more, up to `most_members` (None: as many as fit). `gpus`: GPU types by name.

    Units of one more member are added all together or not at all, so that none is favoured: not where there would be
    more than `most_units`.
    """
    found: list[EnumeratedUnit] = []
    size = 0
    while most_members is None or size < most_members:
        larger: list[EnumeratedUnit] = []
        for unit in _of_size(uses, nodes, gpus, size + 1):
            larger.append(unit)
            if len(found) + len(larger) > most_units:
                return EnumeratedUnits(tuple(found), size, are_all=False)
        if not larger:
            return EnumeratedUnits(tuple(found), size, are_all=True)
        found, size = found + larger, size + 1
    return EnumeratedUnits(tuple(found), size, are_all=False)


def _of_size(uses: Uses, nodes: Sequence[NodeConfig], gpus: Mapping[str, Gpu], size: int) -> Iterator[EnumeratedUnit]:
    for node in nodes:
        for members in combinations(sorted(uses.get(node.id, {})), size):
            unit = unit_of(node, members, uses, gpus)
            if unit is not None:
                yield unit
