"""The port to where libraries are kept. Built unit by unit, so that an interrupted build goes on where it stopped."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from templates_lib.ports.source import TemplateBatch, TemplateSource
from templates_lib.values.library import Library
from templates_lib.values.work import WorkClass


@dataclass(frozen=True, slots=True)
class UnitInfo:
    """One unit of a build; the counts are 0 until it is `done`."""

    name: str
    done: bool
    sets: int
    templates: int
    kept: int
    seconds: float
    """Seconds of the build since the unit stored before this one: those of all units add up to the time that the build
    took, however many units were built at once."""


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """Sources and state of a library; times are ISO 8601, UTC."""

    version: str
    """Content hash; empty until every unit is done and the build was finished."""
    kind: str
    fingerprint: str
    cost_model_fingerprint: str
    parameters: dict[str, float]
    """Parameters of the build, such as n_max and rho."""
    configs: tuple[str, ...]
    classes: tuple[WorkClass, ...]
    engines: tuple[str, ...]
    """Engines of its templates, by the names of `engine_set`; an empty one where nobody kept them."""
    units: tuple[UnitInfo, ...]
    created_at: str
    finished_at: str

    @property
    def sets(self) -> int:
        return sum(unit.sets for unit in self.units)

    @property
    def templates(self) -> int:
        return sum(unit.templates for unit in self.units)

    @property
    def kept(self) -> int:
        return sum(unit.kept for unit in self.units)

    @property
    def seconds(self) -> float:
        return sum(unit.seconds for unit in self.units)


@dataclass(frozen=True, slots=True)
class TemplateRecord:
    """A stored template, for the reader of this `kind`."""

    kind: str
    library_version: str
    """The library it was found in."""
    record: bytes
    nodes: dict[str, int]


class LibraryBuild(Protocol):
    """One library being built, by nobody else at the same time."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Units that are not stored yet, in the source's order."""
        ...

    def add(self, batch: TemplateBatch, seconds: float) -> None:
        """Store a finished unit: all of it or, when this raises or the process dies, nothing.

        `seconds` as in `UnitInfo`. Raises ValueError for a batch that is not what its source promised.
        """
        ...

    def finish(self) -> str:
        """The version of the library, now that no unit is missing."""
        ...


class LibraryStore(Protocol):
    def building(self, source: TemplateSource, parameters: Mapping[str, float]) -> AbstractContextManager[LibraryBuild]:
        """Begin the build of `source`'s library, or resume it; waits while another process builds the same one.

        `parameters` are kept with a new library for people to read.
        """
        ...

    def find(self, fingerprint: str) -> str | None:
        """The version of the finished library of a source with this fingerprint."""
        ...

    def join(self, versions: Sequence[str]) -> str:
        """The version of the library that has the templates of all these finished ones, each of which stays.

        It is a hash of `versions`; that of a single one is its own. Of a template that several have, the first one's
        capacity counts. Raises LookupError for an unknown version, ValueError as `joined_classes`.
        """
        ...

    def load(self, version: str, protected: Collection[str] = ()) -> Library:
        """A finished library, templates in the order of the source's units.

        Templates whose ids are `protected` (they run) and that are not in it are added from the newest library that
        has them, with the capacity certified there and, where needed, its configurations and classes. Those certified
        there for a class of this library under another objective, and ids that no library has, stay out. Raises
        LookupError for an unknown version.
        """
        ...

    def record(self, version: str, template_id: str) -> TemplateRecord:
        """Return the record from this library or, for a protected template, from the newest that has it. Raises
        LookupError."""
        ...

    def libraries(self) -> tuple[LibraryInfo, ...]:
        """List all libraries, unfinished ones included, the oldest first."""
        ...

    def show(self, version: str) -> LibraryInfo:
        """Raises LookupError, with the nearest version, for an unknown one."""
        ...
