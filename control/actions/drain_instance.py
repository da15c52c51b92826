"""Drain an instance."""

from control.actions.context import ActionContext
from control.actions.refusal import NotNowError
from control.db.instances import PostgresInstances
from control.lifecycle.advance import RefusedEvent
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState

_LEAVING = (InstanceState.DRAINING, InstanceState.TERMINATING)
_NOT_YET = (
    InstanceState.REQUESTED, InstanceState.PROVISIONING, InstanceState.BOOTSTRAPPING, InstanceState.LOADING,
)  # fmt: skip
"""States before an instance has any request."""


def drain_instance(act: ActionContext, instance: str, reason: str) -> None:
    """Give an instance no new request, and give it back when it has finished those it has; at once where it does not
    serve yet. Again: no harm. Raises NotStoredError; NotNowError for one that has failed or ended."""
    with act.as_one() as one:
        stored = PostgresInstances(one.database)
        found = stored.load(instance)
        if found.state in _LEAVING:
            return
        kind = EventKind.RELEASE if found.state in _NOT_YET else EventKind.DRAIN
        if isinstance(stored.apply(instance, Event(kind, act.signed(reason)), act.now), RefusedEvent):
            raise NotNowError(f"instance {instance} is {found.state}: it cannot be drained")
        one.record("instance.drained", f"drains instance {instance}: {reason}", instance, found.fleet)
