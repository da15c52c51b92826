"""What is wrong with a unit of executors, whatever kind of placement it was read from."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from templates_lib.values.engines import ENGINES
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.placement import Executor, UnitPlacement

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


def check_unit(unit: UnitPlacement, nodes: Mapping[str, int]) -> UnitPlacement:
    """Return the unit. Raises PlacementError unless its executors fit each other and the nodes of the template."""
    for executor in unit.executors:
        _check_executor(executor, sum(nodes.values()))
    _check_slots(unit, nodes)
    _check_pool(unit)
    return unit


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
    of_nodes = f"give each node a slot of its own: its stages have {counts} nodes, its slots are {executor.slots}"
    if executor.graph is not None:
        is_cut = not executor.stages and len(slots) == 1
        of_nodes = f"a part of a graph has no stages, and one node: its slots are {executor.slots}"
    unknown, nearest = [slot for slot in slots if not 0 <= slot < nodes], nearest_name(executor.engine, ENGINES)
    is_share = 0 <= share.compute <= 1 and min((share.kv_blocks, *share.devices)) >= 0
    for is_right, problem, text in (
        (
            _ID.fullmatch(executor.id),
            PlacementProblem.FORM,
            "an id is 1 to 63 of a-z, 0-9, dots and dashes behind the first",
        ),
        (
            # Parts of graphs are planned before there is an engine for them: they name none.
            executor.engine in ENGINES or (executor.graph is not None and not executor.engine),
            PlacementProblem.ENGINE,
            f"engine {executor.engine!r} is not registered; {nearest}",
        ),
        (is_cut and len(set(slots)) == len(slots), PlacementProblem.SLOT, of_nodes),
        (
            not unknown,
            PlacementProblem.SLOT,
            f"there is no slot {min(unknown, default=0)}: the template has {nodes} nodes",
        ),
        (
            executor.graph is None or 0 < len(executor.graph.components) == len(set(executor.graph.components)),
            PlacementProblem.FORM,
            "a part of a graph is one component or more, each once",
        ),
        (is_share, PlacementProblem.SHARE, "its share of compute is 0 to 1, its devices and KV blocks are 0 or more"),
    ):
        if not is_right:
            raise PlacementError(problem, f"executor {executor.id!r}: {text}")


def _check_pool(unit: UnitPlacement) -> None:
    if unit.pool_bytes < 0:
        raise PlacementError(PlacementProblem.SHARE, f"executors cannot share {unit.pool_bytes} bytes of KV cache")
    for executor in unit.executors if unit.pool_bytes else ():
        if len(executor.configs) != 1 or min((nodes.kv_blocks for _, _, nodes, _ in executor.placed()), default=0) < 1:
            text = "who shares a KV cache is on one node, and may hold a block of it at least"
            raise PlacementError(PlacementProblem.SHARE, f"executor {executor.id!r}: {text}")


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
