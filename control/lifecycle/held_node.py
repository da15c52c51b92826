"""A node on record that is not gone: rented, or on its way."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from control.lifecycle.node_load import NodeLoad, together


@dataclass(frozen=True, slots=True)
class HeldNode:
    name: str
    instance_id: str
    place: int
    """Place of the node among those of its instance, from 0."""
    offer: str
    """Key of the offer it is rented from."""
    cloud: str
    provider_id: str
    """Empty while it is not known to exist."""
    created_at: datetime | None
    """Time at which the cloud was known to have it; None: not yet."""
    last_heartbeat: datetime | None = None
    load: NodeLoad | None = None
    """Load that it reported then."""


def scheduler_load(held: Mapping[int, HeldNode]) -> NodeLoad | None:
    """Return the last load reported by the nodes with an instance's schedulers; `held`: its nodes, by place. None: no
    report yet."""
    found = {each.name: each.load for each in held.values() if each.load is not None and each.load.scheduler}
    return together(found) if found else None


def executor_load(held: HeldNode | None, executor: str) -> NodeLoad | None:
    """Return the last load of one executor that a node reported. None: no report yet."""
    load = None if held is None else held.load
    return load.executors.get(executor) if load is not None and load.executors else load
