"""Longest times that an instance may stay in a state, and what happens then."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance


@dataclass(frozen=True, slots=True)
class Patience:
    provisioning: timedelta = timedelta(minutes=10)
    """Time until the gang is whole (docs/instances.md), from when no launch of it is queued any more: what waits for
    the rest costs money."""
    bootstrapping: timedelta = timedelta(minutes=15)
    """Time until every agent has registered: an image is pulled, a driver loaded and an engine installed in less."""
    loading: timedelta = timedelta(minutes=30)
    """Time until the first step: 500 GB of weights at 300 MB/s."""
    draining: timedelta = timedelta(minutes=10)
    """Time for the requests under way. The rest then goes on elsewhere: nothing is lost, but prompts are computed
    again."""

    def of(self, state: InstanceState) -> timedelta | None:
        """Return how long an instance may stay in a state; None: as long as it takes."""
        return {
            InstanceState.PROVISIONING: self.provisioning,
            InstanceState.BOOTSTRAPPING: self.bootstrapping,
            InstanceState.LOADING: self.loading,
            InstanceState.DRAINING: self.draining,
        }.get(state)


def overdue(
    instance: Instance, patience: Patience, now: datetime, queued_until: datetime | None = None
) -> Event | None:
    """Return the event of an instance that is in its state for too long; None: nothing is due. `queued_until`: when a
    launch of it was last seen to wait for its turn, from which on it is waited for."""
    state = InstanceState(instance.state)
    limit, since = patience.of(state), datetime.fromisoformat(instance.state_since)
    if limit is None or now - max(since, queued_until or since) <= limit:
        return None
    reason = f"{state} for more than {limit.total_seconds():g} s"
    return Event(EventKind.RELEASE if state is InstanceState.DRAINING else EventKind.TIMED_OUT, reason)
