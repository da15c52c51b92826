"""What fleets before this one left at a cloud that has one fleet at a time."""

from control.executor.wind_down import wind_down
from control.fleet.stores import FleetStores
from control.lifecycle.event import Event, EventKind


def end_other_fleets(cloud: str, fleet: str, stores: FleetStores) -> dict[str, str]:
    """End all instances at `cloud` but those of `fleet`; node → why it may still be billed.

    Their requests are not waited for: no gateway routes to them any more. Raises DatabaseUnavailableError."""
    left: dict[str, str] = {}
    reason = f"fleet {fleet} takes its place"
    for instance in stores.instances.living():
        if instance.fleet != fleet and instance.zone.partition("/")[0] == cloud:
            stores.instances.apply(instance.id, Event(EventKind.DRAIN, reason), stores.executor.clock())
            left |= wind_down(stores.instances, stores.executor, instance.id, reason).left
    return left
