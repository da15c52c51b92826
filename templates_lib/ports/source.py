"""The port of template sources. Every system that joins Medley is one more `TemplateSource`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.work import WorkClass

Progress = Callable[[str, int, int], None]
"""Called with (what is being built, done, total)."""


@dataclass(frozen=True, slots=True, eq=False)
class TemplateBatch:
    """Finished templates of one unit of work (where placements are enumerated: of one work class), as arrays.

    `records` are opaque to everyone but the reader of their source's kind, which turns one into a template. Arrays as
    in `Library`, over the source's own `configs`, `classes` and `engines`.
    """

    unit: str
    """Name of the unit of work; a build that is interrupted resumes after the last stored unit."""
    sets: int
    """Node multisets examined."""
    templates: int
    """Those with capacity > 0."""
    ids: NDArray[np.bytes_]
    nodes: NDArray[np.uint8]
    point_template: NDArray[np.int32]
    entry_point: NDArray[np.int32]
    entry_class: NDArray[np.int16]
    entry_units_per_s: NDArray[np.float64]
    template_engine: NDArray[np.int16]
    records: tuple[bytes, ...]
    """Compact placement of each template."""
    limits: Mapping[int, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """Template, by its place in the batch → what bounds its classes together, where its capacity is a region
    (`Library.limits`): for each limit what one unit per second of each of its classes uses, in order of the classes."""


class TemplateSource(Protocol):
    """Makes templates of one kind. A build is a sequence of independent units."""

    @property
    def kind(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Changes when anything that its templates depend on changes (models, SLOs, shapes, cost model, N_max, ρ)."""
        ...

    @property
    def cost_model_fingerprint(self) -> str: ...

    @property
    def configs(self) -> tuple[str, ...]: ...

    @property
    def classes(self) -> tuple[WorkClass, ...]: ...

    @property
    def engines(self) -> tuple[str, ...]:
        """Engines that its templates may be of, by the names of `engine_set`."""
        ...

    def units(self) -> tuple[str, ...]: ...

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        """The batches of `units`, in any order, as they are finished."""
        ...
