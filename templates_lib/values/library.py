"""A library of templates as arrays: what the allocator reads."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.work import WorkClass


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

    @property
    def size(self) -> int:
        return len(self.ids)

    def template_id(self, index: int) -> str:
        return bytes(self.ids[index]).decode()

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
        )
