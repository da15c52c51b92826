"""Placements of components of a graph: replicas on devices of one node, as executors and back.

Kinds `executor` and `cell` have this form (`templates_lib.sources.graph_record`).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import groupby

import msgspec

from templates_lib.sources.graph_record import GpuExecutor
from templates_lib.sources.placement_checks import PlacementError, PlacementProblem
from templates_lib.values.hardware import UnknownHardwareError, node_config_from_id
from templates_lib.values.placement import Executor, GraphPart, Placement, Share, UnitPlacement
from templates_lib.values.template import Software

ALL = 1.0
"""Share of its devices that an executor has: no other is on them."""


class _Payload(msgspec.Struct, frozen=True):
    executors: tuple[GpuExecutor, ...]


def component_unit(placement: Placement, software: Software, nodes: Mapping[str, int]) -> UnitPlacement:
    """One executor a replica, all on the only node of the template. Raises PlacementError, and msgspec.ValidationError
    for another form."""
    groups = msgspec.convert(placement.payload, _Payload).executors
    if sum(nodes.values()) != 1:
        text = f"executors of components share one node, and the template has {sum(nodes.values())}"
        raise PlacementError(PlacementProblem.SLOT, text)
    ((config, _),) = nodes.items()
    component, found = software.served_as or software.model, list[Executor]()
    for group in groups:
        part = GraphPart(group.components, config, group.together)
        for devices in group.devices:
            if len(devices) != group.gpus or len(set(devices)) != len(devices):
                text = f"{'+'.join(group.components)} has devices {devices}, and each replica takes {group.gpus}"
                raise PlacementError(PlacementProblem.SHARE, text)
            name = _id(group.components, len(found))
            share = Share(devices, ALL)
            found.append(Executor(name, component, software.engine, software.dtype, (), ((0,),), share, part))
    _check_devices(found, config)
    return UnitPlacement(tuple(found))


def gpu_executors_of(executors: Iterable[Executor]) -> tuple[GpuExecutor, ...]:
    """Return executors of components as people read them: those that are alike and follow each other in one row. None
    of executors that serve models by layers."""
    parts = [(each.graph, each.share.devices) for each in executors if each.graph is not None]
    rows = groupby(parts, key=lambda each: (each[0], len(each[1])))
    return tuple(
        GpuExecutor(part.components, gpus, tuple(devices for _, devices in own), part.together)
        for (part, gpus), own in rows
    )


def _id(components: tuple[str, ...], number: int) -> str:
    """Numbers make it unique in its unit, names tell people what it is: as many of them as an id has room for."""
    return f"{number}.{'-'.join(components)}"[:63]


def _check_devices(executors: Iterable[Executor], config: str) -> None:
    """Devices are counted on nodes of known hardware; other nodes count theirs when they start."""
    there = _devices_on(config)
    for each in executors:
        if there is not None and (last := max(each.share.devices, default=0)) >= there:
            text = f"executor {each.id!r}: there is no device {last}: {config} has {there}, counted from 0"
            raise PlacementError(PlacementProblem.SHARE, text)


@cache
def _devices_on(config: str) -> int | None:
    try:
        return node_config_from_id(config).gpu_count
    except UnknownHardwareError:
        return None
