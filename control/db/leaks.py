"""Leaks in PostgreSQL: nodes that a cloud has and no row explains, for as long as they are billed."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects.postgresql import insert

from control.db.cost_tables import leak
from control.db.fleet_tables import node
from control.db.node_prices import current_price


def record_leak(
    connection: Connection,
    name: str,
    cloud: str,
    asked_at: datetime | None,
    usd_per_hour: Decimal | None,
    now: datetime,
) -> None:
    """A node was found that no row wants. One that has a living row is none; again: no harm.

    Where its row is on record, and gone, the row says what it costs and explains it until its end; else `asked_at` and
    `usd_per_hour`, as the node itself carries them, or from `now` on at nobody knows what.
    """
    query = select(node, current_price().label("price")).where(node.c.name == name)
    row = connection.execute(query).one_or_none()
    if row is not None and row.gone_at is None:
        return
    if row is not None:
        cloud, usd_per_hour = row.cloud, usd_per_hour if row.price is None else row.price
        # What was refused is not charged at all: should it exist after all, none of it is explained.
        asked_at = row.gone_at if row.charged else row.requested_at
    values = {"node": name, "cloud": cloud, "since": asked_at or now, "found_at": now, "usd_per_hour": usd_per_hour}
    new = insert(leak).values(values)
    connection.execute(new.on_conflict_do_update(index_elements=[leak.c.node], set_={"gone_at": None}))


def end_leak(connection: Connection, name: str, now: datetime) -> None:
    """End a leak that its cloud does not list any more. A node that was never a leak does no harm."""
    connection.execute(update(leak).where(leak.c.node == name, leak.c.gone_at.is_(None)).values(gone_at=now))
