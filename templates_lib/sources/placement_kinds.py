"""The registry of placement kinds: how to read what the nodes of a template run.

A placement of any kind is read as a unit of executors, and all else follows from that: what is wrong with it, which
devices and which share of a node each executor has, the orders of nodes (`control.hub`), the members of routing tables
(`control.fleet.routing`), what each component costs, the stations of simulations, and how plans and templates are
drawn. Whoever needs one of these asks here; allocator and diff read no placement.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import msgspec

from templates_lib.sources.component_placement import component_unit, gpu_executors_of
from templates_lib.sources.graph_record import CELL, EXECUTOR, GpuExecutor
from templates_lib.sources.graph_record import VERSION as GRAPH_VERSION
from templates_lib.sources.pipeline_record import KIND as PIPELINE
from templates_lib.sources.pipeline_record import VERSION as PIPELINE_VERSION
from templates_lib.sources.placement_checks import PlacementError, PlacementProblem, check_unit
from templates_lib.values.engine_set import UNKNOWN, engine_set
from templates_lib.values.placement import (
    ONLY,
    UNIT,
    UNIT_VERSION,
    Executor,
    PipelinePlacement,
    Placement,
    Stage,
    UnitPlacement,
)
from templates_lib.values.plan import PlannedInstance
from templates_lib.values.template import ServingTemplate, Software

_UNSAID = Software("", "", "", "", "")
"""Of plans that were stored when they did not say it."""

Placed = ServingTemplate | PlannedInstance


def one_executor(stages: tuple[Stage, ...], software: Software) -> UnitPlacement:
    """The unit whose only executor runs these stages, each on nodes of its own."""
    numbers = count()
    slots = tuple(tuple(next(numbers) for nodes in stage.nodes for _ in range(nodes.count)) for stage in stages)
    component = software.served_as or software.model
    return UnitPlacement((Executor(ONLY, component, software.engine, software.dtype, stages, slots),))


def _pipeline(placement: Placement, software: Software, _nodes: Mapping[str, int]) -> UnitPlacement:
    return one_executor(msgspec.convert(placement.payload, PipelinePlacement).stages, software)


def _unit(placement: Placement, _software: Software, nodes: Mapping[str, int]) -> UnitPlacement:
    return check_unit(msgspec.convert(placement.payload, UnitPlacement), nodes)


def _components(placement: Placement, software: Software, nodes: Mapping[str, int]) -> UnitPlacement:
    return check_unit(component_unit(placement, software, nodes), nodes)


@dataclass(frozen=True, slots=True)
class PlacementKind:
    """How placements of one kind are read."""

    version: int
    """The newest form of its payload; all older ones are read too."""
    read: Callable[[Placement, Software, Mapping[str, int]], UnitPlacement]
    """(placement, the template's software, its nodes) → executors. Raises PlacementError for what no nodes can run
    (`check_unit`), msgspec.ValidationError for another form."""


PLACEMENT_KINDS: dict[str, PlacementKind] = {
    PIPELINE: PlacementKind(PIPELINE_VERSION, _pipeline),
    UNIT: PlacementKind(UNIT_VERSION, _unit),
    EXECUTOR: PlacementKind(GRAPH_VERSION, _components),
    CELL: PlacementKind(GRAPH_VERSION, _components),
}
"""Kind → how it is read. The name is a part of templates' identity: it may not change. Templates of any other kind are
planned, but not run."""


def unit_of(placed: Placed) -> UnitPlacement:
    """Read a placement as a unit of executors. Raises PlacementError."""
    placement, software = placed.placement, placed.software or _UNSAID
    kind = PLACEMENT_KINDS.get(placement.kind) if placement else None
    if kind is None or placement is None:
        name = placement.kind if placement else ""
        raise PlacementError(PlacementProblem.KIND, f"placements of kind {name!r} are not served yet")
    if placement.version > kind.version:
        text = f"placements of kind {placement.kind!r} are read up to version {kind.version}, and this one has version"
        raise PlacementError(PlacementProblem.KIND, f"{text} {placement.version}: it is of a later release of Medley")
    try:
        return kind.read(placement, software, placed.nodes)
    except msgspec.ValidationError as error:
        raise PlacementError(PlacementProblem.FORM, f"is no placement of kind {placement.kind!r}: {error}") from error


def executors_of(placed: Placed) -> tuple[Executor, ...] | None:
    """Return the executors of a placement, for people to read; None where it cannot be read."""
    try:
        return unit_of(placed).executors
    except PlacementError:
        return None


def engines_run(placed: Placed) -> str:
    """Return the engines of a placement's executors (`engine_set`); of one that cannot be read, the one that its
    software names."""
    executors = executors_of(placed)
    if executors is None:
        return placed.software.engine if placed.software else UNKNOWN
    return engine_set(executor.engine for executor in executors)


def gpu_executors(placed: Placed) -> tuple[GpuExecutor, ...]:
    """Return the executors of components of a graph, those that are alike in one row, for people to read; none of
    other placements."""
    return gpu_executors_of(executors_of(placed) or ())
