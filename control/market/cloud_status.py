"""Clouds that plans leave out, and why: for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.market_memory import PostgresMarketMemory
from policies.availability import Learned, is_excluded


@dataclass(frozen=True, slots=True)
class CloudStatus:
    cloud: str
    left_out: str
    """Why nothing is rented there now, such as credentials that are missing or have expired; empty: it may be."""
    failure: str
    """Failure of the last request for its offers; empty: it answered, or was never asked."""


def cloud_statuses(database: Database, now: datetime) -> list[CloudStatus]:
    """List clouds that were asked for offers, or that have refused every call, by name. Raises
    DatabaseUnavailableError."""
    markets, memory = PostgresOffers(database).markets(), PostgresMarketMemory(database).read()
    refusing = {name for name, known in memory.items() if "/" not in name and is_excluded(known, now)}
    return [_status(name, markets.get(name), memory, now) for name in sorted(markets.keys() | refusing)]


def _status(cloud: str, market: CloudMarket | None, memory: Mapping[str, Learned], now: datetime) -> CloudStatus:
    reasons = [market.left_out] if market is not None and market.left_out else []
    known = memory.get(cloud)
    if known is not None and is_excluded(known, now):
        assert known.excluded_until is not None  # noqa: S101 - it is excluded
        until = known.excluded_until.isoformat(timespec="seconds")
        reasons.append(f"it refuses to rent ({known.reason}), and is asked again after {until}")
    return CloudStatus(cloud, "; ".join(reasons), "" if market is None else market.failure)
