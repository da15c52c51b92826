"""Rows of instances, their nodes and their history as values."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select
from sqlalchemy.dialects.postgresql import insert

from control.db.fleet_tables import instance as instance_table
from control.db.fleet_tables import instance_event, node
from control.db.nearest import not_stored
from control.lifecycle.event import EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance, Node
from templates_lib.values.offer import Market

REQUESTED = ""
"""The event of the row that an instance's history begins with."""


def one_instance(connection: Connection, instance_id: str) -> Instance:
    found = instances(connection, select(instance_table).where(instance_table.c.id == instance_id))
    if not found:
        raise unknown_instance(connection, instance_id)
    return found[0]


def unknown_instance(connection: Connection, instance_id: str) -> LookupError:
    return not_stored("instance", instance_id, connection.execute(select(instance_table.c.id)).scalars().all())


def instances(connection: Connection, query: Select[Any]) -> tuple[Instance, ...]:
    rows = connection.execute(query).all()
    living = select(node).where(node.c.instance_id.in_([row.id for row in rows]), node.c.gone_at.is_(None))
    nodes: dict[str, list[Node]] = {}
    for row in connection.execute(living.order_by(node.c.place)):
        value = Node(row.name, row.offer, row.provider_id, iso(row.last_heartbeat) if row.last_heartbeat else "")
        nodes.setdefault(row.instance_id, []).append(value)
    return tuple(_instance(row, nodes.get(row.id, ())) for row in rows)


def _instance(row: Row[Any], nodes: Iterable[Node]) -> Instance:
    return Instance(
        id=row.id,
        template_id=row.template_id,
        zone=row.zone,
        market=Market(row.market),
        state=InstanceState(row.state),
        nodes=tuple(nodes),
        version=row.version,
        state_since=iso(row.state_since),
        fleet=row.fleet,
    )


def append_history(
    connection: Connection, instance_id: str, version: int, event: str, old: str, new: str, reason: str, at: datetime
) -> None:
    row = {"instance_id": instance_id, "version": version, "event": event, "from_state": old, "to_state": new}
    connection.execute(insert(instance_event).values(row | {"reason": reason, "at": at}))


def past_transition(row: Row[Any]) -> PastTransition:
    return PastTransition(
        sequence=row.sequence,
        instance_id=row.instance_id,
        version=row.version,
        event=EventKind(row.event) if row.event != REQUESTED else None,
        from_state=InstanceState(row.from_state) if row.from_state else None,
        to_state=InstanceState(row.to_state),
        reason=row.reason,
        at=iso(row.at),
    )


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
