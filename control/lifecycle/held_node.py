"""A node on record that is not gone: rented, or on its way."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from control.lifecycle.node_load import NodeLoad


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
    """Return the last load reported by the node with an instance's scheduler; `held`: its nodes, by place. None: no
    report yet."""
    loads = (held[place].load for place in sorted(held))
    return next((load for load in loads if load is not None and load.scheduler), None)
