"""The registry of placement kinds: how to read what the nodes of a template run.

The hub, the simulator, the API (hence the console) and the command line ask here. Allocator, checker and diff read no
placement.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import count

import msgspec

from templates_lib.sources.pipeline_record import KIND as PIPELINE
from templates_lib.values.engine_set import UNKNOWN, engine_set
from templates_lib.values.engines import ENGINES
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.placement import ONLY, Executor, PipelinePlacement, Placement, Stage, UnitPlacement
from templates_lib.values.plan import PlannedInstance
from templates_lib.values.template import ServingTemplate, Software

UNIT = "unit"
_UNSAID = Software("", "", "", "", "")
"""Of plans that were stored when they did not say it."""
_ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
"""Of an executor: it is a part of file names and of members of routing tables."""


class PlacementProblem(StrEnum):
    KIND = "kind"
    """Nothing reads placements of its kind: templates of it are planned, but not run; listed ones are simulated."""
    FORM = "form"
    SLOT = "slot"
    """An executor is on a node that the template does not have, or a node has no executor."""
    SHARE = "share"
    """Executors share more of a node than there is."""
    ENGINE = "engine"
    COMPONENT = "component"
    """No executor does the work of a component."""


class PlacementError(ValueError):
    """A placement that cannot be run as it is; the message says what is wrong with which executor."""

    def __init__(self, problem: PlacementProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


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
    unit = msgspec.convert(placement.payload, UnitPlacement)
    for executor in unit.executors:
        _check_executor(executor, sum(nodes.values()))
    _check_slots(unit, nodes)
    return unit


Reader = Callable[[Placement, Software, Mapping[str, int]], UnitPlacement]
PLACEMENT_KINDS: dict[str, Reader] = {PIPELINE: _pipeline, UNIT: _unit}
"""Kind → what reads its placement, given the template's software and its nodes. Templates of any other kind are
planned, but not run."""


def unit_of(placed: Placed) -> UnitPlacement:
    """Read a placement as a unit of executors. Raises PlacementError."""
    placement, software = placed.placement, placed.software or _UNSAID
    read = PLACEMENT_KINDS.get(placement.kind) if placement else None
    if read is None or placement is None:
        kind = placement.kind if placement else ""
        raise PlacementError(PlacementProblem.KIND, f"placements of kind {kind!r} are not served yet")
    try:
        return read(placement, software, placed.nodes)
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


def check_components(unit: UnitPlacement, components: Iterable[str]) -> None:
    """Raises PlacementError for a component that no executor of the unit serves."""
    there = {executor.component for executor in unit.executors}
    for missing in sorted(set(components) - there):
        there_are = f"there are some for {', '.join(sorted(there))}"
        raise PlacementError(PlacementProblem.COMPONENT, f"no executor for component {missing!r}; {there_are}")


def _check_executor(executor: Executor, nodes: int) -> None:
    share, slots = executor.share, [slot for slots in executor.slots for slot in slots]
    counts = [sum(each.count for each in stage.nodes) for stage in executor.stages]
    is_cut = min(counts, default=0) > 0 and [len(each) for each in executor.slots] == counts
    unknown, nearest = [slot for slot in slots if not 0 <= slot < nodes], nearest_name(executor.engine, ENGINES)
    is_share = 0 <= share.compute <= 1 and min((share.kv_blocks, *share.devices)) >= 0
    of_nodes = f"its stages have {counts} nodes, its slots are {executor.slots}"
    for is_right, problem, text in (
        (
            _ID.fullmatch(executor.id),
            PlacementProblem.FORM,
            "an id is 1 to 63 of a-z, 0-9, dots and dashes behind the first",
        ),
        (
            executor.engine in ENGINES,
            PlacementProblem.ENGINE,
            f"engine {executor.engine!r} is not registered; {nearest}",
        ),
        (
            is_cut and len(set(slots)) == len(slots),
            PlacementProblem.SLOT,
            f"give each node a slot of its own: {of_nodes}",
        ),
        (
            not unknown,
            PlacementProblem.SLOT,
            f"there is no slot {min(unknown, default=0)}: the template has {nodes} nodes",
        ),
        (is_share, PlacementProblem.SHARE, "its share of compute is 0 to 1, its devices and KV blocks are 0 or more"),
    ):
        if not is_right:
            raise PlacementError(problem, f"executor {executor.id!r}: {text}")


def _check_slots(unit: UnitPlacement, nodes: Mapping[str, int]) -> None:
    ids = Counter(executor.id for executor in unit.executors)
    if not ids or max(ids.values()) > 1:
        text = f"a unit has one executor or more, each with an id of its own: {', '.join(ids)}"
        raise PlacementError(PlacementProblem.FORM, text)
    configs = unit.slots
    if Counter(configs) != Counter(nodes):
        text = f"executors run on {dict(Counter(configs))}, the template has {dict(nodes)}"
        raise PlacementError(PlacementProblem.SLOT, text)
    for executor, slot, config in ((e, *each) for e in unit.executors for each in e.configs.items()):
        if configs[slot] != config:
            text = f"executor {executor.id!r}: slot {slot} is {configs[slot]} for another executor, not {config}"
            raise PlacementError(PlacementProblem.SLOT, text)
    for slot, shares in ((at, shares) for at in range(len(configs)) for shares in unit.compute_by_device(at)):
        if sum(shares.values()) > 1 or min(shares.values()) <= 0:
            names = ", ".join(f"{name!r} {float(share):g}" for name, share in shares.items())
            text = f"executors share out more of a device of slot {slot} than there is: {names}"
            raise PlacementError(PlacementProblem.SHARE, text)
