"""Templates that are given, written by hand or by another system, not enumerated."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.sources.placement_checks import PlacementError, PlacementProblem, check_components
from templates_lib.sources.placement_kinds import engines_run, unit_of
from templates_lib.values.placement import Placement
from templates_lib.values.template import Capacity, OperatingPoint, ServingTemplate, Software, template_id
from templates_lib.values.work import WorkClass

KIND = "listed"
UNIT = "listed"
COST_MODEL = "listed"
"""Stands for the fingerprint of a cost model: capacities are given."""


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    software: Software
    nodes: dict[str, int]
    placement: Placement
    points: tuple[OperatingPoint, ...]
    shape_id: str = ""
    slo_ms: float = 0.0
    percentile: float = 99.0

    def template(self) -> ServingTemplate:
        s = self.software
        parts = (s.model, s.model_revision, s.dtype, s.engine, s.dispatch, self.nodes, self.placement, s.served_as)
        return ServingTemplate(template_id(*parts), *parts)


def read_listed(record: bytes, nodes: dict[str, int]) -> tuple[ServingTemplate, Capacity]:  # noqa: ARG001
    """The template in `record`, which holds its `nodes` too. Raises msgspec.DecodeError for other bytes."""
    listed = msgspec.json.decode(record, type=ListedTemplate)
    template = listed.template()
    capacity = Capacity(template.id, listed.points, listed.shape_id, listed.slo_ms, listed.percentile, COST_MODEL)
    return template, capacity


class ListedSource:
    """A `TemplateSource` of kind `listed`: one unit of work, nothing pruned or computed.

    Raises ValueError for a template without nodes or capacity, with an unknown work class, or given twice.
    """

    kind = KIND
    cost_model_fingerprint = COST_MODEL

    def __init__(self, classes: tuple[WorkClass, ...], templates: tuple[ListedTemplate, ...]) -> None:
        self.classes = classes
        self.templates = templates
        self.configs = tuple(sorted({config for t in templates for config in t.nodes}))
        self._engine_of = [engines_run(t.template()) for t in templates]
        self.engines = tuple(sorted(set(self._engine_of)))
        self._check()

    @property
    def fingerprint(self) -> str:
        content = msgspec.json.encode((self.classes, self.templates), order="sorted")
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def units(self) -> tuple[str, ...]:
        return (UNIT,)

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        if UNIT not in units:
            return
        points = [(row, point) for row, t in enumerate(self.templates) for point in t.points]
        class_index = {c.id: i for i, c in enumerate(self.classes)}
        entries = [(p, class_index[k], v) for p, (_, o) in enumerate(points) for k, v in o.units_per_s.items()]
        yield TemplateBatch(
            unit=UNIT,
            sets=len({tuple(sorted(t.nodes.items())) for t in self.templates}),
            templates=len(self.templates),
            ids=np.array([t.template().id.encode() for t in self.templates], dtype="S32"),
            nodes=np.array([[t.nodes.get(c, 0) for c in self.configs] for t in self.templates], dtype=np.uint8),
            point_template=np.array([row for row, _ in points], dtype=np.int32),
            entry_point=np.array([p for p, _, _ in entries], dtype=np.int32),
            entry_class=np.array([k for _, k, _ in entries], dtype=np.int16),
            entry_units_per_s=np.array([v for _, _, v in entries], dtype=np.float64),
            template_engine=np.array([self.engines.index(name) for name in self._engine_of], dtype=np.int16),
            records=tuple(msgspec.json.encode(t) for t in self.templates),
        )
        progress(UNIT, 1, 1)

    def _check(self) -> None:
        known = {c.id: c for c in self.classes}
        seen: set[str] = set()
        for place, listed in enumerate(self.templates):
            name = f"templates[{place}] ({listed.software.model})"
            if not listed.nodes or any(n < 1 for n in listed.nodes.values()):
                raise ValueError(f"{name}: give at least one node, and no count below 1")
            if not listed.points or not all(p.units_per_s for p in listed.points):
                raise ValueError(f"{name}: give at least one operating point, and no empty one")
            for work_class, units in ((k, v) for p in listed.points for k, v in p.units_per_s.items()):
                if work_class not in known:
                    raise ValueError(
                        f"{name}: unknown work class {work_class!r}; listed are {', '.join(sorted(known))}"
                    )
                if not 0 < units < float("inf"):
                    raise ValueError(f"{name}: {work_class} at {units} units/s is no capacity")
            try:
                components = {known[k].component for p in listed.points for k in p.units_per_s}
                check_components(unit_of(listed.template()), components)
            except PlacementError as error:
                if error.problem is not PlacementProblem.KIND:  # another system may list what nothing here runs
                    raise ValueError(f"{name}: {error}") from error
            content_id = listed.template().id
            if content_id in seen:
                raise ValueError(f"{name}: is given twice")
            seen.add(content_id)
