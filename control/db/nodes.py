"""Nodes in PostgreSQL: those that are held, and when they were last heard of. `intents` makes them and ends them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import ColumnElement, select, text, true, update

from control.db.database import Database
from control.db.fleet_tables import instance, node
from control.db.node_prices import charged_price
from control.lifecycle.held_node import HeldNode
from control.lifecycle.node_load import NodeLoad

# One statement for all: ten thousand of their own would take seconds.
_HEARD = text(
    "UPDATE node SET last_heartbeat = :now, load = CAST(NULLIF(said.load, '') AS json)"
    " FROM unnest(CAST(:names AS text[]), CAST(:loads AS text[])) AS said(name, load)"
    " WHERE node.name = said.name AND (node.last_heartbeat IS NULL OR node.last_heartbeat < :now)"
)


@dataclass(frozen=True, slots=True)
class PostgresNodes:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def held(self, cloud: str) -> dict[str, HeldNode]:
        """Return the nodes by name, whatever their instances are up to."""
        return {held.name: held for held in self._held(node.c.cloud == cloud)}

    def of_instance(self, instance_id: str) -> dict[int, HeldNode]:
        """Return an instance's nodes by place: rented, or on their way."""
        return {held.place: held for held in self._held(node.c.instance_id == instance_id)}

    def of_instances(self, ids: Collection[str]) -> dict[str, dict[int, HeldNode]]:
        """Return the nodes of some instances, by place."""
        return self._by_instance(node.c.instance_id.in_(ids))

    def by_instance(self) -> dict[str, dict[int, HeldNode]]:
        """Return the nodes of all instances, by place."""
        return self._by_instance(true())

    def clouds(self) -> set[str]:
        """Return the clouds with held nodes."""
        query = select(node.c.cloud).where(node.c.gone_at.is_(None)).distinct()
        return set(self.database.read_column(query))

    def rented_since(self, fleet: str, since: datetime) -> tuple[datetime, ...]:
        """List when the fleet's nodes were asked for, one entry a node, given back or not; refused ones do not
        count."""
        query = select(node.c.requested_at).join(instance, instance.c.id == node.c.instance_id)
        query = query.where(instance.c.fleet == fleet, node.c.requested_at >= since)
        query = query.where(node.c.gone_at.is_(None) | node.c.created_at.is_not(None))
        return tuple(self.database.read_column(query.order_by(node.c.requested_at)))

    def rents(self, fleet: str) -> dict[tuple[str, int], float]:
        """(instance, place) → $/h of the fleet's nodes, those on their way included; 0 where nobody knows."""
        query = select(node.c.instance_id, node.c.place, charged_price().label("price"))
        query = query.join(instance, instance.c.id == node.c.instance_id)
        query = query.where(instance.c.fleet == fleet, node.c.gone_at.is_(None))
        return {(row.instance_id, row.place): float(row.price or 0) for row in self.database.read(query)}

    def lost(self, name: str, why: str, now: datetime) -> bool:
        """Record that a node is gone without our doing, its key with it; whether it was held until now."""
        gone = update(node).where(node.c.name == name, node.c.gone_at.is_(None)).values(gone_at=now, gone_because=why)
        return bool(self.database.read(gone.returning(node.c.name)))

    def heard_of(self, loads: Mapping[str, NodeLoad | None], now: datetime) -> None:
        """Record a heartbeat of each node, and what it says of itself. A late one does not make a node younger."""
        if not loads:
            return
        encoded = ["" if load is None else msgspec.json.encode(load).decode() for load in loads.values()]
        self.database.write(_HEARD, {"names": list(loads), "loads": encoded, "now": now})

    def _by_instance(self, wanted: ColumnElement[bool]) -> dict[str, dict[int, HeldNode]]:
        found: dict[str, dict[int, HeldNode]] = {}
        for held in self._held(wanted):
            found.setdefault(held.instance_id, {})[held.place] = held
        return found

    def _held(self, which: ColumnElement[bool]) -> list[HeldNode]:
        query = select(node).where(which, node.c.gone_at.is_(None)).order_by(node.c.name)
        rows = self.database.read(query)
        return [
            HeldNode(
                row.name, row.instance_id, row.place, row.offer, row.cloud, row.provider_id, row.created_at,
                row.last_heartbeat, None if row.load is None else msgspec.json.decode(row.load, type=NodeLoad),
            )
            for row in rows
        ]  # fmt: skip
