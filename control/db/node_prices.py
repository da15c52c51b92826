"""Costs of held nodes, in PostgreSQL: stamped when their intents are recorded, and changed when the market does."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from control.db.cost_tables import node_price
from control.db.database import Database
from control.db.fleet_tables import instance, node
from control.db.reconcile_tables import fleet
from control.given_name import DEFAULT_PROJECT


@dataclass(frozen=True, slots=True)
class PostgresNodePrices:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def observed(self, usd_per_hour: Mapping[str, float], now: datetime) -> int:
        """Charge held nodes from `now` on at the prices of their offers (key → price); of how many nodes it changed.

        Offers that are not given keep their price. Tell it of every look at a market that bills by the hour: a spot
        node costs what spot costs now, whatever it cost when it was launched.
        """
        changed_since = select(node_price.c.node).where(node_price.c.node == node.c.name, node_price.c.since >= now)
        query = select(node.c.name, node.c.offer, current_price().label("price")).where(
            node.c.gone_at.is_(None),
            node.c.requested_at < now,
            node.c.offer.in_(list(usd_per_hour)),
            ~changed_since.exists(),
        )
        with self.database.transaction() as connection:
            changed = [
                {"node": row.name, "since": now, "usd_per_hour": exact(usd_per_hour[row.offer])}
                for row in connection.execute(query)
                if row.price != exact(usd_per_hour[row.offer])
            ]
            if changed:
                connection.execute(insert(node_price).on_conflict_do_nothing(), changed)
        return len(changed)


def exact(usd_per_hour: float) -> Decimal:
    """The decimal that people wrote, not the binary fraction nearest to it: 0.1 is a tenth."""
    return Decimal(repr(float(usd_per_hour)))


def stamp_of(connection: Connection, instance_id: str, usd_per_hour: float) -> dict[str, object]:
    """Return a new node's columns of its costs: they stay attributed when fleet, project or template are gone."""
    query = (
        select(fleet.c.project, instance.c.template["model"].as_string().label("model"))
        .select_from(instance)
        .outerjoin(fleet, fleet.c.name == instance.c.fleet)
        .where(instance.c.id == instance_id)
    )
    row = connection.execute(query).one()
    return {"usd_per_hour": exact(usd_per_hour), "project": row.project or DEFAULT_PROJECT, "model": row.model or ""}


def charged_price() -> ColumnElement[Decimal | None]:
    """Return what a row of `node` costs: its offer and its disk; null where nobody knows."""
    return current_price() + node.c.disk_usd_per_hour


def current_price() -> ColumnElement[Decimal | None]:
    """Return the price of the offer of a row of `node` by the last look at its market."""
    newest = select(node_price.c.usd_per_hour).where(node_price.c.node == node.c.name)
    newest = newest.order_by(node_price.c.since.desc()).limit(1)
    return func.coalesce(newest.correlate(node).scalar_subquery(), node.c.usd_per_hour)
