"""Instances in pages, each with what a view of it needs: two queries a page, however many there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Row, func, select

from control.db.database import Database
from control.db.fleet_tables import instance as instance_table
from control.db.instance_rows import iso
from control.db.nodes import PostgresNodes
from control.lifecycle.held_node import HeldNode
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance, Node
from templates_lib.values.offer import Market
from templates_lib.values.template import ServingTemplate


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    instance: Instance
    plan_id: str
    template: ServingTemplate
    held: Mapping[int, HeldNode]
    """Nodes by place."""


def instance_page(
    database: Database,
    limit: int,
    after: str = "",
    fleet: str | None = None,
    states: Sequence[InstanceState] = (),
    ids: Sequence[str] | None = None,
) -> tuple[InstanceRecord, ...]:
    """List instances by id, those that follow `after`: of all fleets or one; of some states, or all but the terminated;
    or `ids`."""
    t = instance_table.c
    query = select(instance_table).where(t.id > after).order_by(t.id).limit(limit)
    if ids is not None:
        query = query.where(t.id.in_(ids))
    elif states:
        query = query.where(t.state.in_(states))
    else:
        query = query.where(t.state != InstanceState.TERMINATED)
    if fleet is not None:
        query = query.where(t.fleet == fleet)
    rows = database.read(query)
    held = PostgresNodes(database).of_instances([row.id for row in rows])
    return tuple(_record(row, held.get(row.id, {})) for row in rows)


@dataclass(frozen=True, slots=True)
class ReadyInstances:
    """Equal instances of one plan that are ready."""

    fleet: str
    plan_id: str
    column: tuple[str, str, Market]
    """Template, zone and market."""
    count: int


def ready_by_target(database: Database) -> tuple[ReadyInstances, ...]:
    """Count the instances of all fleets that are ready. Raises DatabaseUnavailableError."""
    t = instance_table.c
    keys = t.fleet, t.plan_id, t.template_id, t.zone, t.market
    query = select(*keys, func.count().label("found")).where(t.state == InstanceState.READY).group_by(*keys)
    return tuple(
        ReadyInstances(row.fleet, row.plan_id, (row.template_id, row.zone, Market(row.market)), row.found)
        for row in database.read(query)
    )


def _record(row: Row[Any], held: Mapping[int, HeldNode]) -> InstanceRecord:
    rented = (held[place] for place in sorted(held))
    instance = Instance(
        id=row.id,
        template_id=row.template_id,
        zone=row.zone,
        market=Market(row.market),
        state=InstanceState(row.state),
        nodes=tuple(_node(each) for each in rented),
        version=row.version,
        state_since=iso(row.state_since),
        fleet=row.fleet,
    )
    return InstanceRecord(instance, row.plan_id, _template(row.template), held)


def _node(held: HeldNode) -> Node:
    heard = iso(held.last_heartbeat) if held.last_heartbeat else ""
    return Node(held.name, held.offer, held.provider_id, heard)


@lru_cache(maxsize=256)
def _template(body: bytes) -> ServingTemplate:
    """Many instances run the same."""
    return msgspec.json.decode(body, type=ServingTemplate)
