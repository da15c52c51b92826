"""History of instances, step by step."""

from dataclasses import dataclass

from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState


@dataclass(frozen=True, slots=True)
class PastTransition:
    """One line of an instance's history."""

    sequence: int
    """Position among the steps of all instances, in the order of writing (with holes)."""
    instance_id: str
    version: int
    event: EventKind | None
    """None: it was requested."""
    from_state: InstanceState | None
    to_state: InstanceState
    reason: str
    at: str
    """ISO 8601, UTC."""
