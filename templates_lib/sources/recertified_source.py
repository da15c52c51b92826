"""Templates that run, certified anew: under the objectives, shapes and step times of today."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from templates_lib.ports.library_store import TemplateRecord
from templates_lib.ports.source import Progress, TemplateBatch, TemplateSource


class CertifyingSource(TemplateSource, Protocol):
    """A source that can say what its templates of before sustain under the objectives of today."""

    def work_class_of(self, record: bytes) -> str:
        """Return the work class that a template of this kind was made for; empty: none of these classes, by the same
        software."""
        ...

    def engine_of(self, record: bytes) -> str:
        """Return the engine of a template of one of these classes: one of `engines`."""
        ...

    def recertified(self, record: bytes) -> tuple[bytes, float] | None:
        """The record of a template of one of these classes, and what it sustains now. None: it cannot keep the
        objective."""
        ...


class RecertifiedSource:
    """A `TemplateSource` of templates that `source` would not make (any more), with a unit of work per work class.

    Those that cannot keep the objective are in no batch: whoever plans replaces their instances.
    """

    def __init__(self, source: CertifyingSource, running: Mapping[str, TemplateRecord]) -> None:
        """`running`: of the kind of `source`, by template id; those of none of its work classes are left out."""
        self._source = source
        self.kind = source.kind
        classes = {name: source.work_class_of(found.record) for name, found in sorted(running.items())}
        self._class_of = {name: work_class for name, work_class in classes.items() if work_class}
        self.running = {name: running[name] for name in self._class_of}
        self.configs = tuple(sorted({config for found in self.running.values() for config in found.nodes}))
        self.classes = source.classes
        self.engines = source.engines
        self.cost_model_fingerprint = source.cost_model_fingerprint

    @property
    def fingerprint(self) -> str:
        content = "/".join(("recertified", self._source.fingerprint, *self.running))
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def units(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._class_of.values())))

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        position = {each.id: index for index, each in enumerate(self.classes)}
        for unit in units:
            own = [name for name in self.running if self._class_of[name] == unit]
            found = {name: self._source.recertified(self.running[name].record) for name in own}
            kept = {name: record for name, record in found.items() if record is not None}
            nodes = [[self.running[name].nodes.get(config, 0) for config in self.configs] for name in kept]
            engines = [self.engines.index(self._source.engine_of(self.running[name].record)) for name in kept]
            each = np.arange(len(kept), dtype=np.int32)
            yield TemplateBatch(
                unit=unit,
                sets=len(own),
                templates=len(kept),
                ids=np.array([name.encode() for name in kept], dtype="S32"),
                nodes=np.array(nodes, dtype=np.uint8).reshape(len(kept), len(self.configs)),
                point_template=each,
                entry_point=each,
                entry_class=np.full(len(kept), position[unit], dtype=np.int16),
                entry_units_per_s=np.array([units_per_s for _, units_per_s in kept.values()], dtype=np.float64),
                template_engine=np.array(engines, dtype=np.int16),
                records=tuple(record for record, _ in kept.values()),
            )
            progress(unit, len(own), len(own))
