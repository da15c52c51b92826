"""Fleets in PostgreSQL: what their owners ask for, and the plan each is held to."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.errors import StaleVersionError
from control.db.events import PostgresEvents
from control.db.guarded import lock_row
from control.db.nearest import not_stored
from control.db.reconcile_tables import fleet, fleet_target
from control.db.tables import plan as plan_table
from control.given_name import DEFAULT_PROJECT
from control.lifecycle.fleet import FleetMode, FleetRecord, FleetTarget
from control.lifecycle.fleet_event import FleetEvent


@dataclass(frozen=True, slots=True)
class PostgresFleets:
    """Every method also raises DatabaseUnavailableError; those that name a fleet NotStoredError with the nearest name;
    those that name a version StaleVersionError, and write nothing, when the row is at another."""

    database: Database

    def create(
        self,
        name: str,
        spec: str,
        now: datetime,
        folder: str = "",
        project: str = DEFAULT_PROJECT,
        mode: FleetMode = FleetMode.OBSERVE,
    ) -> FleetRecord:
        """StaleVersionError when there is one of that name."""
        row = {"name": name, "project": project, "spec": spec, "folder": folder, "mode": mode, "ending": False}
        with self.database.transaction() as connection:
            new = insert(fleet).values(row | {"version": 1, "created_at": now, "updated_at": now})
            if connection.execute(new.on_conflict_do_nothing().returning(fleet.c.name)).scalar_one_or_none() is None:
                raise StaleVersionError(f"there is a fleet {name!r} already: change that one, or choose another name")
            connection.execute(
                insert(fleet_target).values(fleet=name, accepted="", accepted_by="", proposed="", version=0)
            )
            return _load(connection, name)

    def change(
        self,
        name: str,
        version: int,
        now: datetime,
        *,
        spec: str | None = None,
        folder: str | None = None,
        project: str | None = None,
        mode: FleetMode | None = None,
        ending: bool | None = None,
    ) -> FleetRecord:
        """The fleet with what is given; the rest stays."""
        given = {"spec": spec, "folder": folder, "project": project, "mode": mode, "ending": ending}
        values: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        values |= {"version": version + 1, "updated_at": now}
        with self.database.transaction() as connection:
            lock_row(connection, fleet, name, version)
            connection.execute(update(fleet).where(fleet.c.name == name).values(values))
            return _load(connection, name)

    def remove(self, name: str) -> None:
        """The record; whoever calls it has seen that nothing of the fleet runs. Again: no harm."""
        self.database.write(delete(fleet).where(fleet.c.name == name))

    def load(self, name: str) -> FleetRecord:
        with self.database.transaction() as connection:
            return _load(connection, name)

    def all(self) -> tuple[FleetRecord, ...]:
        """List all fleets by name."""
        rows = self.database.read(select(fleet).order_by(fleet.c.name))
        return tuple(_record(row) for row in rows)

    def news(self, known: Iterable[FleetRecord]) -> tuple[frozenset[str], tuple[FleetRecord, ...]]:
        """Names of all fleets, and the records of those that are not as in `known`: for whoever looks often."""
        # One that was removed and made anew is at version 1 again.
        seen = [(each.name, each.version, datetime.fromisoformat(each.updated_at)) for each in known]
        changed = tuple_(fleet.c.name, fleet.c.version, fleet.c.updated_at).not_in(seen)
        with self.database.transaction() as connection:
            rows = connection.execute(select(fleet).where(changed).order_by(fleet.c.name)).all()
            names = frozenset(connection.execute(select(fleet.c.name)).scalars())
        return names, tuple(_record(row) for row in rows if row.name in names)

    def mark(self) -> tuple[object, ...]:
        """Return a mark that is another one whenever a fleet came, went or changed."""
        query = select(func.count(), func.max(fleet.c.updated_at), func.sum(fleet.c.version))
        return tuple(self.database.read(query)[0])

    def page(self, limit: int, after: str = "", project: str | None = None) -> tuple[FleetRecord, ...]:
        """List fleets by name, those that follow `after`, of all projects or of one."""
        query = select(fleet).where(fleet.c.name > after).order_by(fleet.c.name).limit(limit)
        if project is not None:
            query = query.where(fleet.c.project == project)
        return tuple(_record(row) for row in self.database.read(query))

    def target(self, name: str) -> FleetTarget:
        with self.database.transaction() as connection:
            row = connection.execute(select(fleet_target).where(fleet_target.c.fleet == name)).one_or_none()
            if row is None:
                raise _unknown(connection, name)
        return _target(row)

    def targets(self) -> dict[str, FleetTarget]:
        """Return the targets by fleet."""
        return {row.fleet: _target(row) for row in self.database.read(select(fleet_target))}

    def propose(self, before: FleetTarget, plan: str, now: datetime) -> FleetTarget:
        """`plan` waits for approval, in place of what waited before."""
        return self._write(before, {"proposed": plan, "proposed_at": now})

    def accept(self, before: FleetTarget, plan: str, by: str, why: str, now: datetime, trace: str = "") -> FleetTarget:
        """The fleet is held to `plan` from now on; what waits stays, unless it is that one.

        The event `plan.accepted` is written with it, whoever accepts: a replay follows the plans by these. Its detail
        is what the plan costs, and the one that the fleet was held to: `usd_per_hour`, `usd_per_hour_before`.
        """
        values: dict[str, Any] = {"accepted": plan, "accepted_at": now, "accepted_by": by}
        if before.proposed == plan:
            values |= {"proposed": "", "proposed_at": None}
        with self.database.as_one() as database:
            one = PostgresFleets(database)
            held = one._write(before, values)
            detail = one._prices(usd_per_hour=plan, usd_per_hour_before=before.accepted)
            event = FleetEvent(by, "plan.accepted", why, before.fleet, plan, detail, trace)
            PostgresEvents(database).add([event], now)
        return held

    def say(self, name: str, trouble: str) -> None:
        """Store why the fleet cannot be planned or run now; empty when it can. Takes no version: what was judged on
        others holds."""
        self.database.write(update(fleet_target).where(fleet_target.c.fleet == name).values(trouble=trouble))

    def _prices(self, **plans: str) -> dict[str, float]:
        """Return the cost of each of these plans, $/h; without those that are not stored (any more)."""
        query = select(plan_table.c.id, plan_table.c.usd_per_hour).where(plan_table.c.id.in_(plans.values()))
        usd_per_hour = {row.id: row.usd_per_hour for row in self.database.read(query)}
        return {name: usd_per_hour[plan] for name, plan in plans.items() if plan in usd_per_hour}

    def _write(self, before: FleetTarget, values: dict[str, Any]) -> FleetTarget:
        written = update(fleet_target).where(
            fleet_target.c.fleet == before.fleet, fleet_target.c.version == before.version
        )
        written = written.values(values | {"version": before.version + 1}).returning(*fleet_target.c)
        with self.database.transaction() as connection:
            row = connection.execute(written).one_or_none()
            if row is None:
                _load(connection, before.fleet)
                raise StaleVersionError(f"the plan of fleet {before.fleet!r} has changed meanwhile: read it again")
        return _target(row)


def _load(connection: Connection, name: str) -> FleetRecord:
    row = connection.execute(select(fleet).where(fleet.c.name == name)).one_or_none()
    if row is None:
        raise _unknown(connection, name)
    return _record(row)


def _unknown(connection: Connection, name: str) -> Exception:
    return not_stored("fleet", name, connection.execute(select(fleet.c.name)).scalars().all())


def _record(row: Row[Any]) -> FleetRecord:
    return FleetRecord(
        row.name, row.project, row.spec, row.folder, FleetMode(row.mode), row.version, row.ending, _iso(row.updated_at)
    )


def _target(row: Row[Any]) -> FleetTarget:
    return FleetTarget(
        row.fleet,
        row.accepted,
        _iso(row.accepted_at),
        row.accepted_by,
        row.proposed,
        _iso(row.proposed_at),
        row.version,
        row.trouble,
    )


def _iso(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat()
