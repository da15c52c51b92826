"""Rows for followers of live views: steps of instances in the order of writing, and their load."""

from dataclasses import dataclass

import msgspec
from sqlalchemy import func, select

from control.db.database import Database
from control.db.fleet_tables import instance, instance_event, node
from control.db.instance_rows import past_transition
from control.db.reconcile_tables import event
from control.lifecycle.history import PastTransition
from control.lifecycle.node_load import NodeLoad, together
from control.lifecycle.state import InstanceState


@dataclass(frozen=True, slots=True)
class SchedulerLoad:
    """Load of an instance, as its scheduler last reported."""

    instance: str
    fleet: str
    running: int
    waiting: int
    kv_used: float | None
    """Share of its KV blocks."""


def newest_event(database: Database) -> int:
    """0: there is none."""
    return int(database.read_column(select(func.coalesce(func.max(event.c.sequence), 0)))[0])


def newest_step(database: Database) -> int:
    """0: there is none."""
    return int(database.read_column(select(func.coalesce(func.max(instance_event.c.sequence), 0)))[0])


def instance_steps(database: Database, after: int, limit: int) -> list[tuple[str, PastTransition]]:
    """The first `limit` after a sequence, oldest first, each with its fleet."""
    query = select(instance_event, instance.c.fleet).join_from(instance_event, instance)
    query = query.where(instance_event.c.sequence > after).order_by(instance_event.c.sequence).limit(limit)
    return [(row.fleet, past_transition(row)) for row in database.read(query)]


def scheduler_loads(database: Database) -> list[SchedulerLoad]:
    """List the loads of all instances that live and have a scheduler."""
    query = select(instance.c.id, instance.c.fleet, node.c.name, node.c.load).join_from(instance, node)
    query = query.where(
        instance.c.state != InstanceState.TERMINATED, node.c.gone_at.is_(None), node.c.load.is_not(None)
    )
    rows = database.read(query)
    found: dict[tuple[str, str], dict[str, NodeLoad]] = {}
    for row in rows:
        load = msgspec.json.decode(row.load, type=NodeLoad)
        if load.scheduler:
            found.setdefault((row.id, row.fleet), {})[row.name] = load
    loads = ((*of, together(each)) for of, each in found.items())
    return [SchedulerLoad(name, fleet, load.running, load.waiting, load.kv_used) for name, fleet, load in loads]
