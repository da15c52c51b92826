"""Plans in PostgreSQL, each with the snapshot it was solved on: together they can be explained and made again."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Row, Table, select
from sqlalchemy.dialects.postgresql import insert

from control.db.api_tables import plan_baseline
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.fleet_tables import instance as instance_table
from control.db.nearest import not_stored
from control.db.plan_summary import summary_of
from control.db.tables import plan as plan_table
from control.db.tables import snapshot as snapshot_table
from templates_lib.ports.plan_store import Baseline, KeptPlan
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot

Value = TypeVar("Value", Snapshot, Plan)


@dataclass(frozen=True, slots=True)
class PostgresPlans:
    """A `PlanStore`. Every method also raises DatabaseUnavailableError; a LookupError is a NotStoredError."""

    database: Database

    def save(self, name: str, plan: Plan, snapshot: Snapshot) -> None:
        if plan.snapshot_version != snapshot.version:
            msg = f"plan {plan.id!r} was solved on snapshot {plan.snapshot_version!r}, not on {snapshot.version!r}"
            raise ValueError(msg)
        _check_readable(snapshot, f"snapshot {snapshot.version!r}")
        _check_readable(plan, f"plan {plan.id!r}")
        snapshot_row = {"version": snapshot.version, "library_version": snapshot.library_version, "body": snapshot}
        plan_row = {
            "id": plan.id,
            "name": name,
            "snapshot_version": plan.snapshot_version,
            "policy": plan.policy,
            "usd_per_hour": plan.usd_per_hour,
            "body": plan,
            "summary": summary_of(plan),
        }
        with self.database.transaction() as connection:
            connection.execute(insert(snapshot_table).values(snapshot_row).on_conflict_do_nothing())
            connection.execute(insert(plan_table).values(plan_row).on_conflict_do_nothing())

    def compare(self, plan_id: str, baselines: Sequence[Baseline]) -> None:
        rows = [
            {"plan_id": plan_id, "baseline": b.name, "usd_per_hour": b.usd_per_hour, "unmet_share": b.unmet_share}
            | {"breaks": b.breaks}
            for b in baselines
        ]
        if rows:
            self.database.write(insert(plan_baseline).on_conflict_do_nothing(), rows)

    def newest(self, limit: int) -> tuple[KeptPlan, ...]:
        query = select(plan_table).order_by(plan_table.c.created_at.desc(), plan_table.c.id).limit(limit)
        rows = self.database.read(query)
        return tuple(_kept(row) for row in rows)

    def find(self, prefix: str) -> KeptPlan:
        with self.database.transaction() as connection:
            rows = connection.execute(
                select(plan_table).where(plan_table.c.id.startswith(prefix, autoescape=True)).limit(2)
            ).all()
            if not rows:
                raise not_stored("plan", prefix, connection.execute(select(plan_table.c.id)).scalars().all())
        if len(rows) > 1:
            raise NotStoredError(f"several plans begin with {prefix!r}, such as {rows[0].id!r}; give more of the id")
        return _kept(rows[0])

    def load(self, plan_id: str) -> Plan:
        return self._load(plan_table, plan_id, Plan)

    def planned(self, instances: Collection[str]) -> dict[str, PlannedInstance]:
        """Instance → what the plan that asked for it says of all that are like it, of the same zone and market if it
        says so of these; of those of `instances` whose plan is kept."""
        t, p = instance_table.c, plan_table.c
        found: dict[str, PlannedInstance] = {}
        asked_by = defaultdict[str, list[Any]](list)
        with self.database.transaction() as connection:
            query = select(t.id, t.plan_id, t.template_id, t.zone, t.market).where(t.id.in_(instances))
            for row in connection.execute(query) if instances else ():
                asked_by[row.plan_id].append(row)
            # One after the other: a month has thousands, and each may be large.
            kept = select(p.id, p.body).where(p.id.in_(asked_by)).execution_options(yield_per=1)
            for plan_id, body in connection.execute(kept):
                plan = msgspec.json.decode(body, type=Plan)
                alike = {row.id: _alike(plan, row) for row in asked_by[plan_id]}
                found |= {name: planned for name, planned in alike.items() if planned is not None}
        return found

    def snapshot(self, version: str) -> Snapshot:
        return self._load(snapshot_table, version, Snapshot)

    def _load(self, table: Table, name: str, kind: type[Value]) -> Value:
        (key,) = table.primary_key
        with self.database.transaction() as connection:
            body = connection.execute(select(table.c.body).where(key == name)).scalar_one_or_none()
            if body is None:
                raise not_stored(table.name, name, connection.execute(select(key)).scalars().all())
        return msgspec.json.decode(body, type=kind)


def _alike(plan: Plan, row: Row[Any]) -> PlannedInstance | None:
    alike = (each for each in plan.instances if each.template_id == row.template_id)
    return min(alike, key=lambda each: (each.zone, each.market) != (row.zone, row.market), default=None)


def _kept(row: Row[Any]) -> KeptPlan:
    plan = msgspec.json.decode(row.body, type=Plan)
    created_at = row.created_at.astimezone(UTC).isoformat(timespec="seconds")
    return KeptPlan(row.id, created_at, row.name, row.policy, row.usd_per_hour, plan.unmet, row.snapshot_version)


def _check_readable(value: Snapshot | Plan, name: str) -> None:
    # JSON has no NaN and no infinity: msgspec writes null, which cannot be read back as a number.
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=type(value))
    except msgspec.ValidationError as error:
        msg = f"{name} cannot be stored: it holds a number that is not finite, or a value of a wrong type ({error})"
        raise ValueError(msg) from error
