"""Templates that run, certified anew: under the objectives, shapes and step times of today."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np

from templates_lib.ports.library_store import TemplateRecord
from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.sources.pipeline_record import KIND
from templates_lib.sources.pipeline_source import PipelineTemplateSource


class RecertifiedSource:
    """A `TemplateSource` of templates that `source` would not make (any more), with a unit of work per work class.

    Those that cannot keep the objective are in no batch: whoever plans replaces their instances.
    """

    kind = KIND

    def __init__(self, source: PipelineTemplateSource, running: Mapping[str, TemplateRecord]) -> None:
        """`running`: by template id; all of work classes of `source`."""
        self._source = source
        self._running = dict(sorted(running.items()))
        self._class_of = {name: source.work_class_of(found.record) for name, found in self._running.items()}
        self.configs = tuple(sorted({config for found in self._running.values() for config in found.nodes}))
        self.classes = source.classes
        self.cost_model_fingerprint = source.cost_model_fingerprint

    @property
    def fingerprint(self) -> str:
        content = "/".join(("recertified", self._source.fingerprint, *self._running))
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def units(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._class_of.values())))

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        position = {each.id: index for index, each in enumerate(self.classes)}
        for unit in units:
            own = [name for name in self._running if self._class_of[name] == unit]
            found = {name: self._source.recertified(self._running[name].record) for name in own}
            kept = {name: record for name, record in found.items() if record is not None}
            nodes = [[self._running[name].nodes.get(config, 0) for config in self.configs] for name in kept]
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
                records=tuple(record for record, _ in kept.values()),
            )
            progress(unit, len(own), len(own))
