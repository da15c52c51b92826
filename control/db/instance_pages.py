"""Instances in pages, each with what a view of it needs: a few queries a page, however many there are."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import select

from control.db.database import Database
from control.db.fleet_tables import instance as instance_table
from control.db.instance_rows import instances
from control.db.nodes import PostgresNodes
from control.lifecycle.held_node import HeldNode
from control.lifecycle.state import InstanceState
from templates_lib.instance import Instance
from templates_lib.template import ServingTemplate


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    instance: Instance
    plan_id: str
    template: ServingTemplate
    held: dict[int, HeldNode]
    """By place."""


def instance_page(
    database: Database,
    limit: int,
    after: str = "",
    fleet: str | None = None,
    states: Sequence[InstanceState] = (),
    ids: Sequence[str] | None = None,
) -> tuple[InstanceRecord, ...]:
    """By id, those that follow `after`: of all fleets or one; of some states, or all but the terminated; or `ids`."""
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
    with database.transaction() as connection:
        found = instances(connection, query)
        names = [each.id for each in found]
        about = select(t.id, t.plan_id, t.template).where(t.id.in_(names))
        rows = {row.id: row for row in connection.execute(about)}
    held = PostgresNodes(database).of_instances(names)
    return tuple(
        InstanceRecord(
            each,
            rows[each.id].plan_id,
            msgspec.json.decode(rows[each.id].template, type=ServingTemplate),
            held.get(each.id, {}),
        )
        for each in found
    )
