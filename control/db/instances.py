"""Instances in PostgreSQL: read, and written by one function that is guarded by (id, version)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import exists, func, select, update
from sqlalchemy.dialects.postgresql import distinct_on, insert

from control.db.database import Database
from control.db.errors import StaleVersionError
from control.db.fleet_tables import instance as instance_table
from control.db.fleet_tables import instance_event, node
from control.db.instance_rows import (
    REQUESTED,
    append_history,
    instances,
    one_instance,
    past_transition,
    unknown_instance,
)
from control.lifecycle.advance import RefusedEvent, Transition, advance
from control.lifecycle.event import Event, EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from templates_lib.values.template import ServingTemplate


@dataclass(frozen=True, slots=True)
class PostgresInstances:
    """Every method also raises DatabaseUnavailableError. `Instance.nodes` are its living nodes, by place."""

    database: Database

    def request(self, instance: Instance, template: ServingTemplate, plan_id: str, now: datetime) -> Instance:
        """Record that an instance is wanted, without nodes yet; the one on record if it is already.

        ValueError for an instance that is not of `template`, or whose id another one has.
        """
        if instance.template_id != template.id:
            raise ValueError(f"instance {instance.id} is of template {instance.template_id}, not {template.id}")
        row = {
            "id": instance.id,
            "fleet": instance.fleet,
            "plan_id": plan_id,
            "template_id": template.id,
            "template": template,
            "zone": instance.zone,
            "market": instance.market,
            "state": InstanceState.REQUESTED,
            "version": 0,
            "state_since": now,
        }
        with self.database.transaction() as connection:
            added = insert(instance_table).values(row).on_conflict_do_nothing().returning(instance_table.c.id)
            if connection.execute(added).scalar_one_or_none() is not None:
                append_history(
                    connection, instance.id, 0, REQUESTED, "", InstanceState.REQUESTED, f"plan {plan_id}", now
                )
            found = one_instance(connection, instance.id)
        if found.template_id != template.id:
            raise ValueError(
                f"instance {instance.id} is on record with template {found.template_id}: choose another id"
            )
        return found

    def load(self, instance_id: str) -> Instance:
        """Raises NotStoredError with the nearest id."""
        with self.database.transaction() as connection:
            return one_instance(connection, instance_id)

    def of_fleet(self, fleet: str) -> tuple[Instance, ...]:
        """All but the terminated, by id."""
        query = select(instance_table).where(
            instance_table.c.fleet == fleet, instance_table.c.state != InstanceState.TERMINATED
        )
        with self.database.transaction() as connection:
            return instances(connection, query.order_by(instance_table.c.id))

    def living(self) -> tuple[Instance, ...]:
        """List the instances of all fleets, all but the terminated, by fleet and id."""
        query = select(instance_table).where(instance_table.c.state != InstanceState.TERMINATED)
        with self.database.transaction() as connection:
            return instances(connection, query.order_by(instance_table.c.fleet, instance_table.c.id))

    def plan_of(self, instance_id: str) -> str:
        """Id of the plan that it was asked for by. Raises NotStoredError."""
        query = select(instance_table.c.plan_id).where(instance_table.c.id == instance_id)
        with self.database.transaction() as connection:
            plan: str | None = connection.execute(query).scalar_one_or_none()
            if plan is None:
                raise unknown_instance(connection, instance_id)
        return plan

    def ids_of_plan(self, plan_id: str) -> set[str]:
        """Return the ids of all instances that a plan ever asked for: they are used up."""
        query = select(instance_table.c.id).where(instance_table.c.plan_id == plan_id)
        return set(self.database.read_column(query))

    def plans_of_fleet(self, fleet: str) -> tuple[str, ...]:
        """Ids of the plans that its instances, but the terminated, were asked for by: that of the youngest first."""
        asked = (
            select(instance_table.c.plan_id)
            .join_from(instance_table, instance_event)
            .where(
                instance_event.c.version == 0,
                instance_table.c.fleet == fleet,
                instance_table.c.state != InstanceState.TERMINATED,
            )
        )
        youngest_first = func.max(instance_event.c.sequence).desc()
        with self.database.transaction() as connection:
            rows = connection.execute(asked.group_by(instance_table.c.plan_id).order_by(youngest_first))
            return tuple(rows.scalars())

    def template(self, instance_id: str) -> ServingTemplate:
        """Return the template that an instance runs. Raises NotStoredError."""
        query = select(instance_table.c.template).where(instance_table.c.id == instance_id)
        with self.database.transaction() as connection:
            body = connection.execute(query).scalar_one_or_none()
            if body is None:
                raise unknown_instance(connection, instance_id)
        return msgspec.json.decode(body, type=ServingTemplate)

    def templates(self, ids: Collection[str]) -> dict[str, ServingTemplate]:
        """Instance → the template that it runs, of those of `ids` that are on record."""
        t = instance_table.c
        with self.database.transaction() as connection:
            of = {
                row.id: row.template_id for row in connection.execute(select(t.id, t.template_id).where(t.id.in_(ids)))
            }
            query = select(t.template_id, t.template).where(t.template_id.in_(set(of.values())))
            rows = connection.execute(query.ext(distinct_on(t.template_id))).all()
        templates = {row.template_id: msgspec.json.decode(row.template, type=ServingTemplate) for row in rows}
        return {instance: templates[name] for instance, name in of.items()}

    def write(self, transition: Transition) -> None:
        """The one way in which an instance's state changes; its history gets the same step in the same transaction.

        Raises StaleVersionError, and writes nothing, when the instance is not what the transition was judged on.
        """
        before, after = transition.before, transition.after
        guarded = update(instance_table).where(
            instance_table.c.id == before.id, instance_table.c.version == before.version
        )
        if after.state == InstanceState.TERMINATED:
            # Nodes do not count in the version; in `terminating` they only become fewer, so that this is no race.
            living = exists().where(node.c.instance_id == before.id, node.c.gone_at.is_(None))
            guarded = guarded.where(~living)
        moved = guarded.values(state=after.state, version=after.version, state_since=transition.at)
        with self.database.transaction() as connection:
            if connection.execute(moved.returning(instance_table.c.id)).scalar_one_or_none() is None:
                found = one_instance(connection, before.id)
                raise StaleVersionError(
                    f"instance {before.id} is {found.state}, version {found.version}, with {len(found.nodes)} nodes: "
                    f"{transition.event.kind} was judged on version {before.version}"
                )
            event = transition.event
            append_history(
                connection, after.id, after.version, event.kind, before.state, after.state, event.reason, transition.at
            )

    def apply(self, instance_id: str, event: Event, now: datetime) -> Transition | RefusedEvent:
        """Advance the instance as it is now and write that; judged anew whenever somebody else was faster.

        For events that are true whatever the version: a lost node is lost. Ends, since every loss of the race is a
        step forward of an instance whose way is finite.
        """
        while True:
            step = advance(self.load(instance_id), event, now)
            if isinstance(step, RefusedEvent):
                return step
            try:
                self.write(step)
            except StaleVersionError:
                continue
            return step

    def last_step(self) -> int:
        """Sequence of the last step that any instance took, 0 before the first: whether it is worth while to look."""
        return self.database.read_column(select(func.max(instance_event.c.sequence)))[0] or 0

    def drained_since(self, fleet: str, since: datetime) -> tuple[datetime, ...]:
        """List when its ready instances began to drain."""
        query = select(instance_event.c.at).join(instance_table, instance_table.c.id == instance_event.c.instance_id)
        query = query.where(
            instance_table.c.fleet == fleet, instance_event.c.event == EventKind.DRAIN, instance_event.c.at >= since
        )
        return tuple(self.database.read_column(query.order_by(instance_event.c.at)))

    def recent(self, limit: int) -> tuple[PastTransition, ...]:
        """The last steps of all instances, oldest first."""
        query = select(instance_event).order_by(instance_event.c.sequence.desc()).limit(limit)
        rows = self.database.read(query)
        return tuple(past_transition(row) for row in reversed(rows))

    def steps_after(self, sequence: int, limit: int) -> tuple[PastTransition, ...]:
        """The first `limit` steps of all instances behind one, oldest first: for whoever follows along.

        Two writers may commit in another order than their sequences: whoever must not miss one reads some again."""
        query = select(instance_event).where(instance_event.c.sequence > sequence)
        rows = self.database.read(query.order_by(instance_event.c.sequence).limit(limit))
        return tuple(past_transition(row) for row in rows)

    def history(self, instance_id: str) -> tuple[PastTransition, ...]:
        """List the steps of an instance, the oldest first; empty for one that is not on record."""
        query = select(instance_event).where(instance_event.c.instance_id == instance_id)
        rows = self.database.read(query.order_by(instance_event.c.version))
        return tuple(past_transition(row) for row in rows)
