"""End a fleet."""

from collections.abc import Collection
from dataclasses import dataclass

from control.actions.context import ActionContext
from control.actions.lost_traffic import refuse_loss
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.lifecycle.fleet import FleetRecord


@dataclass(frozen=True, slots=True)
class EndedFleet:
    record: FleetRecord
    draining: int
    """Instances that go first; 0: nothing ran, and the fleet is gone."""


def end_fleet(
    act: ActionContext, fleet: str, confirmed: Collection[str] | None = (), version: int | None = None
) -> EndedFleet:
    """Drain all instances of a fleet, and take it off the record with the last of them; at once where nothing runs.

    `confirmed` names models that serve and may be drained; None: all. Raises NotStoredError; LosesTrafficError; with
    `version` StaleVersionError when the fleet is at another one.
    """
    with act.as_one() as one:
        fleets = PostgresFleets(one.database)
        before = fleets.load(fleet)
        refuse_loss(one.database, fleet, (), confirmed)
        record = fleets.change(fleet, before.version if version is None else version, act.now, ending=True)
        draining = len(PostgresInstances(one.database).of_fleet(fleet))
        if not draining:
            fleets.remove(fleet)
        one.record("fleet.removed", f"ended fleet {fleet}", fleet, fleet)
        return EndedFleet(record, draining)
