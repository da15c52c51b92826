"""A library from the batches that its source made."""

from collections.abc import Iterable

import numpy as np

from templates_lib.ports.source import TemplateBatch, TemplateSource
from templates_lib.values.library import Library


def library_from_batches(source: TemplateSource, batches: Iterable[TemplateBatch], version: str) -> Library:
    """The templates of all `batches`, in the order of the source's units whatever order they were finished in."""
    place = {unit: number for number, unit in enumerate(source.units())}
    ordered = sorted(batches, key=lambda batch: place[batch.unit])
    first_template = np.cumsum([0, *(len(b.ids) for b in ordered)], dtype=np.int32)
    first_point = np.cumsum([0, *(len(b.point_template) for b in ordered)], dtype=np.int32)
    empty = np.zeros((0, len(source.configs)), dtype=np.uint8)
    return Library(
        version=version,
        cost_model_fingerprint=source.cost_model_fingerprint,
        configs=source.configs,
        classes=source.classes,
        ids=np.concatenate([np.zeros(0, dtype="S32"), *(b.ids for b in ordered)]),
        nodes=np.concatenate([empty, *(b.nodes for b in ordered)]),
        point_template=np.concatenate(
            [np.zeros(0, dtype=np.int32), *(b.point_template + first_template[i] for i, b in enumerate(ordered))]
        ),
        entry_point=np.concatenate(
            [np.zeros(0, dtype=np.int32), *(b.entry_point + first_point[i] for i, b in enumerate(ordered))]
        ),
        entry_class=np.concatenate([np.zeros(0, dtype=np.int16), *(b.entry_class for b in ordered)]),
        entry_units_per_s=np.concatenate([np.zeros(0), *(b.entry_units_per_s for b in ordered)]),
        engines=source.engines,
        template_engine=np.concatenate([np.zeros(0, dtype=np.int16), *(b.template_engine for b in ordered)]),
    )
