"""Engines: that what a plan says they run is what they declare to run, and to hold after loading."""

from collections.abc import Iterator

import msgspec

from control.checker.case import Case
from control.checker.violation import Violation
from templates_lib.values.engine_limits import beyond
from templates_lib.values.engine_set import UNKNOWN
from templates_lib.values.engine_support import EngineSupport
from templates_lib.values.engines import ENGINES
from templates_lib.values.placement import PipelinePlacement, Placement, Stage
from templates_lib.values.plan import PlannedInstance
from templates_lib.values.stored_weights import StoredWeights
from templates_lib.values.template import Software


def violations(case: Case) -> Iterator[Violation]:
    for planned in case.plan.instances:
        yield from _there(case, planned)
        software = planned.software
        if software is None or software.engine not in ENGINES or not software.dtype:
            continue  # a unit of several executors says of each what it runs; other engines are compared with
        where, support = (
            f"instances[{planned.template_id} in {planned.zone}].software",
            ENGINES[software.engine].support,
        )
        if _stages(planned.placement) and planned.engines not in (UNKNOWN, software.engine):
            named = f"instances[{planned.template_id} in {planned.zone}].engines"
            yield Violation("engine", named, f"{software.engine}, of its software", planned.engines)
        stored = case.checkpoints.get(software.model)
        yield from _held(where, support, software, stored)
        yield from _cut(where, support, planned)
        if stored is not None:
            yield from _read(where, support, software, stored)


def _there(case: Case, planned: PlannedInstance) -> Iterator[Violation]:
    """Nodes of its cloud start its engines, where the snapshot says which clouds do."""
    engines = planned.engines or (planned.software.engine if planned.software else "")
    cloud = planned.zone.partition("/")[0]
    for component in sorted({name.rpartition("/")[0] for name in planned.units_per_s}):
        if planned.zone and not case.snapshot.may_be_at(cloud, component, engines):
            where = f"instances[{planned.template_id} in {planned.zone}].zone"
            yield Violation("engine", where, f"a cloud whose nodes start engine {engines}", cloud)


def _held(where: str, support: EngineSupport, software: Software, stored: StoredWeights | None) -> Iterator[Violation]:
    """Weights were planned in a format that the engine has them in once they are loaded."""
    may_be = support.held if stored is None else {"fp32", *(support.weights.get(each, "") for each in stored.formats)}
    if software.dtype not in may_be:
        names = " or ".join(sorted(filter(None, may_be)))
        expected = f"{software.model} held in {names}, as engine {software.engine} has it after loading"
        yield Violation("engine", f"{where}.dtype", expected, software.dtype)


def _cut(where: str, support: EngineSupport, planned: PlannedInstance) -> Iterator[Violation]:
    """Its nodes share the model as the engine can."""
    how = beyond(support, _stages(planned.placement))
    if how:
        expected = f"{planned.model} not {' and '.join(how)}, which its engine does not do"
        yield Violation("engine", f"{where}.engine", expected, f"a placement on {planned.nodes}")


def _stages(placement: Placement | None) -> tuple[Stage, ...]:
    """Return the stages of a placement; none where it has executors instead, or cannot be read."""
    if placement is None:
        return ()
    try:
        return msgspec.convert(placement.payload, PipelinePlacement).stages
    except msgspec.ValidationError:
        return ()


def _read(where: str, support: EngineSupport, software: Software, stored: StoredWeights) -> Iterator[Violation]:
    if not support.knows(stored.family):
        families = ", ".join(sorted(support.families or ()))
        expected = f"a model of a family that engine {software.engine} runs ({families})"
        yield Violation("engine", f"{where}.engine", expected, f"{software.model} of family {stored.family}")
    for each in stored.formats if support.knows(stored.family) else ():
        if not support.reads(stored.family, each):
            expected = f"weights that engine {software.engine} reads in models of family {stored.family}"
            yield Violation("engine", f"{where}.engine", expected, f"{software.model} in {each}")
    if support.knows(stored.family) and (unattended := support.unattended(stored)):
        expected = f"attention that engine {software.engine} runs"
        yield Violation("engine", f"{where}.engine", expected, f"{software.model} with {unattended}")
