"""Events of an instance: facts that were observed, and decisions that were taken."""

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    PROVISION = "provision"
    """Decision: rent its nodes."""
    NODES_UP = "nodes_up"
    """The cloud has given all nodes of the gang."""
    AGENTS_UP = "agents_up"
    """The agent of every node has registered its key."""
    LOADED = "loaded"
    """Every stage holds its layers and has answered a first step."""
    DRAIN = "drain"
    """Decision: it is not wanted any more, or its nodes are wanted elsewhere."""
    DRAINED = "drained"
    """The scheduler has no request left."""
    RELEASE = "release"
    """Decision: give its nodes back now."""
    NODES_GONE = "nodes_gone"
    """No node of it is left: the cloud's list names none."""
    NODE_LOST = "node_lost"
    """A node that existed does not any more, or stays silent: preemption, crash, partition."""
    TIMED_OUT = "timed_out"
    """The instance has been in its state for longer than it may."""
    BROKE = "broke"
    """The instance says itself that it cannot go on: no offer left, out of memory, a corrupt weight file."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: EventKind
    reason: str
    """Reason for people: why it was decided, or what was seen. Never a secret: it is stored and shown."""
