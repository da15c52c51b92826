"""The only function that decides what becomes of an instance."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from control.lifecycle.transitions import TRANSITIONS
from templates_lib.values.instance import Instance


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of an instance's life, decided but not yet written: `after.version` is `before.version` + 1."""

    before: Instance
    after: Instance
    event: Event
    at: datetime


@dataclass(frozen=True, slots=True)
class RefusedEvent:
    """An event that finds no edge: it came late, twice, or from somebody who is mistaken. Nothing changes."""

    instance: Instance
    event: Event
    text: str


def advance(instance: Instance, event: Event, now: datetime) -> Transition | RefusedEvent:
    """Apply `event` to `instance`. `now` is timezone-aware. `now` is timezone-aware.

    A clock that is behind the one that made the last transition does not turn an instance's history around: the step
    is dated at the later of the two. Raises ValueError for a state that is none.
    """
    state = InstanceState(instance.state)
    target = TRANSITIONS.get((state, event.kind))
    if target is None:
        return RefusedEvent(instance, event, f"instance {instance.id} is {state}: {event.kind} means nothing to it")
    if event.kind is EventKind.NODES_GONE and instance.nodes:
        held = ", ".join(node.id for node in instance.nodes)
        return RefusedEvent(instance, event, f"instance {instance.id} still holds {held}")
    at = now.astimezone(UTC)
    if instance.state_since:
        at = max(at, datetime.fromisoformat(instance.state_since))
    after = replace(instance, state=target, version=instance.version + 1, state_since=at.isoformat())
    return Transition(instance, after, event, at)
