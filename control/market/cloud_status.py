"""Clouds that plans leave out, and why: for people."""

from collections import defaultdict
from dataclasses import dataclass

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.live_offers import PostgresOffers
from control.fleet_file.document import parse
from control.fleet_file.problem import SpecError


@dataclass(frozen=True, slots=True)
class CloudStatus:
    cloud: str
    left_out: str
    """Why plans rent nothing there now, such as credentials that are missing or have expired; empty: they may."""
    failure: str
    """Failure of the last request for its offers; empty: it answered, or was never asked."""
    fleets: tuple[str, ...] = ()
    """Fleets whose spec names it. Empty: that it is left out keeps nobody from anything."""


def cloud_statuses(database: Database) -> list[CloudStatus]:
    """List clouds that were asked for offers, by name. Raises DatabaseUnavailableError."""
    markets, named = PostgresOffers(database).markets(), _named(database)
    return [
        CloudStatus(name, found.left_out, found.failure, tuple(named.get(name, ())))
        for name, found in sorted(markets.items())
    ]


def _named(database: Database) -> dict[str, list[str]]:
    """Return cloud → fleets that name it and are not ending."""
    named: dict[str, list[str]] = defaultdict(list)
    for record in PostgresFleets(database).all():
        if record.ending:
            continue
        try:
            clouds = {section["cloud"] for section in parse(record.spec, "spec").value.get("clouds") or ()}
        except (SpecError, LookupError, TypeError, AttributeError):  # it cannot be planned, and says so elsewhere
            continue
        for cloud in clouds:
            named[str(cloud)].append(record.name)
    return named
