"""A library of templates as arrays: what the allocator reads."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.template import Limit
from templates_lib.values.work import WorkClass

Kind = tuple[tuple[str, ...], str]
"""Components that single templates work for, by name, and their engines (`engine_set`): the nodes of a kind have the
same disk, and take as long to start."""


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """n templates over C node configurations with P operating points and E (point, class) capacities.

    Placements are not here: a store hands them out by template id for the few templates that a plan uses.
    """

    version: str
    cost_model_fingerprint: str
    configs: tuple[str, ...]
    classes: tuple[WorkClass, ...]
    ids: NDArray[np.bytes_]
    """(n,) dtype S32: template ids, hex."""
    nodes: NDArray[np.uint8]
    """(n, C) node counts."""
    point_template: NDArray[np.int32]
    """(P,) non-decreasing: the template of each point."""
    entry_point: NDArray[np.int32]
    """(E,) non-decreasing: the point of each capacity entry."""
    entry_class: NDArray[np.int16]
    """(E,) index into `classes`."""
    entry_units_per_s: NDArray[np.float64]
    """(E,) capacity, before the utilisation cap."""
    engines: tuple[str, ...]
    """Engines of its templates, by the names of `engine_set`."""
    template_engine: NDArray[np.int16]
    """(n,) index into `engines`."""
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    """Template id → what bounds its classes together, where its capacity is a region. Such a template has one point:
    the most of each class, without the others."""

    @property
    def size(self) -> int:
        return len(self.ids)

    def template_id(self, index: int) -> str:
        return bytes(self.ids[index]).decode()

    def engine_of(self, index: int) -> str:
        """Return the engines of a template (`engine_set`)."""
        return self.engines[int(self.template_engine[index])]

    def component_sets(self) -> tuple[tuple[tuple[str, ...], ...], NDArray[np.int64]]:
        """Return the sets of components that single templates work for, each sorted by name, and (n,) which of them
        each template works for."""
        names = sorted({each.component for each in self.classes})
        of_class = np.array([names.index(each.component) for each in self.classes], dtype=np.int64)
        owner, component = self.point_template[self.entry_point], of_class[self.entry_class]
        start = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])[: len(owner)])
        first, last = np.minimum.reduceat(component, start), np.maximum.reduceat(component, start)
        sets: dict[tuple[str, ...], int] = {(name,): i for i, name in enumerate(names)}
        of_template = np.full(self.size, sets.setdefault((), len(sets)), dtype=np.int64)
        of_template[owner[start]] = first
        end = np.append(start[1:], len(owner))
        for i in np.flatnonzero(first != last):  # few: most templates work for one component
            found = tuple(names[k] for k in np.unique(component[start[i] : end[i]]))
            of_template[owner[start[i]]] = sets.setdefault(found, len(sets))
        return tuple(sets), of_template

    def kinds(self) -> tuple[tuple[Kind, ...], NDArray[np.int64]]:
        """Return the kinds that templates may be of, some of which none is, and (n,) which of them each is of."""
        sets, of_template = self.component_sets()
        kinds = tuple((components, engines) for components in sets for engines in self.engines)
        return kinds, of_template * len(self.engines) + self.template_engine

    def of(self, template_ids: Collection[str]) -> "Library":
        """Return those of the templates that it has."""
        ids = np.array([name.encode() for name in sorted(template_ids)], dtype=self.ids.dtype)
        return self.select(np.isin(self.ids, ids))

    def select(self, keep: NDArray[np.bool_]) -> "Library":
        """The templates where `keep` (n,) is true, in the same order, under the same version."""
        new_template = np.cumsum(keep, dtype=np.int32) - 1
        keep_point = keep[self.point_template]
        new_point = np.cumsum(keep_point, dtype=np.int32) - 1
        keep_entry = keep_point[self.entry_point]
        return replace(
            self,
            ids=self.ids[keep],
            nodes=self.nodes[keep],
            point_template=new_template[self.point_template[keep_point]],
            entry_point=new_point[self.entry_point[keep_entry]],
            entry_class=self.entry_class[keep_entry],
            entry_units_per_s=self.entry_units_per_s[keep_entry],
            template_engine=self.template_engine[keep],
        )
