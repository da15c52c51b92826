"""Clouds that plans leave out, and why: for people."""

from dataclasses import dataclass

from control.db.database import Database
from control.db.live_offers import PostgresOffers


@dataclass(frozen=True, slots=True)
class CloudStatus:
    cloud: str
    left_out: str
    """Why plans rent nothing there now, such as credentials that are missing or have expired; empty: they may."""
    failure: str
    """Failure of the last request for its offers; empty: it answered, or was never asked."""


def cloud_statuses(database: Database) -> list[CloudStatus]:
    """List clouds that were asked for offers, by name. Raises DatabaseUnavailableError."""
    markets = PostgresOffers(database).markets()
    return [CloudStatus(name, found.left_out, found.failure) for name, found in sorted(markets.items())]
