"""Pools: members and load of each work class of fleets, against what is planned."""

from collections.abc import Iterator

from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.api.text import QueryText
from control.db.fleets import PostgresFleets
from control.fleet.pools import FleetPools, Pool

router = api_router("pools")


@router.get("/pools", responses=problems())
def list_pools(services: ServicesOf, limit: Limit = 50, cursor: Cursor = None, fleet: QueryText = None) -> Page[Pool]:
    """List what fleets have for each work class, by fleet and class: members ready of those planned, load against
    capacity, and what is planned for instead of the forecast. A request that more than one kind of instance may serve
    counts in the pools of each."""
    last_fleet, last_class = after(cursor, str, str) or ("", "")
    found = []
    for each in _pools(services, str(last_fleet), fleet):
        if (each.fleet, each.work_class) > (last_fleet, last_class):
            found.append(each)
            if len(found) > limit:
                break
    return page(found, limit, lambda pool: pool, lambda pool: (pool.fleet, pool.work_class))


def _pools(services: ServicesOf, since: str, fleet: str | None) -> Iterator[Pool]:
    """Yield those of fleets from `since` on."""
    database = services.database
    looked, stored = FleetPools.of(database, services.clock()), PostgresFleets(database)
    records = (each for each in stored.all() if each.name >= since and fleet in (None, each.name))
    for record in sorted(records, key=lambda each: each.name):  # a database may order names otherwise
        yield from looked.pools(record)
