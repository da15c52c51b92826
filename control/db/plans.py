"""Plans in PostgreSQL, each with the snapshot it was solved on: together they can be explained and made again."""

from dataclasses import dataclass
from typing import TypeVar

import msgspec
from sqlalchemy import Table, select
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.nearest import not_stored
from control.db.tables import plan as plan_table
from control.db.tables import snapshot as snapshot_table
from templates_lib.plan import Plan
from templates_lib.snapshot import Snapshot

Value = TypeVar("Value", Snapshot, Plan)


@dataclass(frozen=True, slots=True)
class PostgresPlans:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def save(self, plan: Plan, snapshot: Snapshot) -> None:
        """Both or neither. What is stored under the same id or version already stays as it was.

        Raises ValueError when the plan was solved on another snapshot, or for a number that is not finite.
        """
        if plan.snapshot_version != snapshot.version:
            msg = f"plan {plan.id!r} was solved on snapshot {plan.snapshot_version!r}, not on {snapshot.version!r}"
            raise ValueError(msg)
        _check_readable(snapshot, f"snapshot {snapshot.version!r}")
        _check_readable(plan, f"plan {plan.id!r}")
        snapshot_row = {"version": snapshot.version, "library_version": snapshot.library_version, "body": snapshot}
        plan_row = {
            "id": plan.id,
            "snapshot_version": plan.snapshot_version,
            "policy": plan.policy,
            "usd_per_hour": plan.usd_per_hour,
            "body": plan,
        }
        with self.database.transaction() as connection:
            connection.execute(insert(snapshot_table).values(snapshot_row).on_conflict_do_nothing())
            connection.execute(insert(plan_table).values(plan_row).on_conflict_do_nothing())

    def load(self, plan_id: str) -> Plan:
        """Raises NotStoredError, with the nearest id, for an unknown one."""
        return self._load(plan_table, plan_id, Plan)

    def snapshot(self, version: str) -> Snapshot:
        """Raises NotStoredError, with the nearest version, for an unknown one."""
        return self._load(snapshot_table, version, Snapshot)

    def _load(self, table: Table, name: str, kind: type[Value]) -> Value:
        (key,) = table.primary_key
        with self.database.transaction() as connection:
            body = connection.execute(select(table.c.body).where(key == name)).scalar_one_or_none()
            if body is None:
                raise not_stored(table.name, name, connection.execute(select(key)).scalars().all())
        return msgspec.json.decode(body, type=kind)


def _check_readable(value: Snapshot | Plan, name: str) -> None:
    # JSON has no NaN and no infinity: msgspec writes null, which cannot be read back as a number.
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=type(value))
    except msgspec.ValidationError as error:
        msg = f"{name} cannot be stored: it holds a number that is not finite, or a value of a wrong type ({error})"
        raise ValueError(msg) from error
