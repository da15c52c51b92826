"""Offers in PostgreSQL: the latest quote of each source, and every change before it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.tables import offer as latest_table
from control.db.tables import offer_history as history_table
from templates_lib.offer import Market, Offer

_QUOTE = ("usd_per_hour", "available_count", "interruptions_per_hour")
"""What changes from one observation of an offer to the next."""


@dataclass(frozen=True, slots=True)
class PostgresOffers:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def record(self, offers: Iterable[Offer]) -> None:
        """Keep each as the latest of its source unless a later one is known, and in the history where it is news.

        An observation with the same quote as the latest is no news, only a later time. Raises ValueError for an offer
        without a time of observation.
        """
        rows = [_row(offer) for offer in offers]
        if not rows:
            return
        with self.database.transaction() as connection:
            # Sorted, so that two who record at once lock the rows in one order.
            rows.sort(key=lambda row: (row["key"], row["source"], row["observed_at"]))
            _insert_history(connection, rows)
            upsert = insert(latest_table)
            upsert = upsert.on_conflict_do_update(
                index_elements=["key", "source"],
                set_={c.name: upsert.excluded[c.name] for c in latest_table.c if not c.primary_key},
                where=upsert.excluded.observed_at >= latest_table.c.observed_at,
            )
            connection.execute(upsert, rows)

    def latest(self) -> tuple[Offer, ...]:
        """The newest quote of each offer, whichever source gave it, ordered by key."""
        newest_last = latest_table.c.key, latest_table.c.observed_at, latest_table.c.source
        with self.database.transaction() as connection:
            rows = connection.execute(select(latest_table).order_by(*newest_last)).all()
        return tuple({row.key: _offer(row) for row in rows}.values())


def _insert_history(connection: Connection, rows: list[dict[str, Any]]) -> None:
    keys = {row["key"] for row in rows}
    known = connection.execute(select(latest_table).where(latest_table.c.key.in_(keys))).all()
    quotes = {(row.key, row.source): tuple(getattr(row, name) for name in _QUOTE) for row in known}
    news = []
    for row in rows:
        quote = tuple(row[name] for name in _QUOTE)
        if quotes.get((row["key"], row["source"])) != quote:
            news.append({column.name: row[column.name] for column in history_table.c})
            quotes[row["key"], row["source"]] = quote
    if news:
        connection.execute(insert(history_table).on_conflict_do_nothing(), news)


def _row(offer: Offer) -> dict[str, Any]:
    try:
        observed_at = datetime.fromisoformat(offer.observed_at)
    except ValueError:
        msg = f"offer {offer.key} of source {offer.source!r} has no time of observation ({offer.observed_at!r})"
        raise ValueError(msg) from None
    values = {c.name: getattr(offer, c.name) for c in latest_table.c if c.name != "observed_at"}
    values["market"] = offer.market.value
    values["observed_at"] = observed_at if observed_at.tzinfo else observed_at.replace(tzinfo=UTC)
    return values


def _offer(row: Row[Any]) -> Offer:
    values = {name: value for name, value in row._mapping.items() if name != "key"}
    values["market"] = Market(row.market)
    values["observed_at"] = row.observed_at.astimezone(UTC).isoformat()
    return Offer(**values)
