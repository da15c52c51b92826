"""Instances as people look at them, a page or a fleet at a time."""

from collections.abc import Iterable
from functools import lru_cache

from control.db.database import Database
from control.db.instance_pages import InstanceRecord, instance_page
from control.db.plans import PostgresPlans
from control.diff.running import Running
from control.diff.target import Target, targets
from control.fleet.instance_view import InstanceView, instance_view
from control.fleet.running import running_instance
from control.hub.gang import Gang, UnplaceableError, gang_of

_ALL = 100_000


def instance_views(database: Database) -> list[InstanceView]:
    """Views of all that are not terminated, by fleet and id."""
    return sorted(views(database, instance_page(database, _ALL)), key=lambda view: (view.fleet, view.id))


def views_of_fleet(database: Database, fleet: str) -> list[InstanceView]:
    return list(views(database, instance_page(database, _ALL, fleet=fleet)))


def views(database: Database, records: Iterable[InstanceRecord]) -> Iterable[InstanceView]:
    for record in records:
        of_it = _of(database, record)
        try:
            gang = gang_of(record.template)
        except UnplaceableError:
            gang = Gang(())
        yield instance_view(record.instance, of_it, record.template.model, gang, record.held)


def running(database: Database, fleet: str) -> tuple[Running, ...]:
    """Instances of a fleet as a decision about them needs to know them."""
    return tuple(
        running_instance(record.instance, record.template, _of(database, record), record.held)
        for record in instance_page(database, _ALL, fleet=fleet)
    )


def _of(database: Database, record: InstanceRecord) -> Target | None:
    column = (record.instance.template_id, record.instance.zone, record.instance.market)
    # Outside of a transaction: what the cache holds must not hold a connection.
    outside = Database(database.engine, database.name)
    return next((each for each in wanted(outside, record.plan_id) if each.column == column), None)


@lru_cache(maxsize=64)
def wanted(database: Database, plan_id: str) -> tuple[Target, ...]:
    """Return what a plan wants; nothing where it is gone. A plan never changes, and its instances come after it."""
    try:
        return targets(PostgresPlans(database).load(plan_id))
    except (LookupError, ValueError):
        return ()
