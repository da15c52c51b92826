"""Operations in PostgreSQL: long work that was asked for, a row each, so that none is lost with the process at it.

Whoever takes one up holds a lease on it and renews it; a lease that has run out is anybody's. Times of leases are the
database's own, so that two machines' clocks cannot disagree about them.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import Row, and_, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from control.db.api_tables import operation
from control.db.database import Database
from control.db.errors import StaleVersionError
from control.db.nearest import not_stored

MAX_ATTEMPTS = 3
"""Work that has cost three processes their lives is given up."""
_ID_BYTES = 8


class OperationState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (OperationState.QUEUED, OperationState.RUNNING)
DONE = (OperationState.SUCCEEDED,)


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    kind: str
    state: OperationState
    request: dict[str, Any]
    result: dict[str, Any] | None
    problem: dict[str, Any] | None
    """Why it failed: name, detail, errors and facts, as the API tells them."""
    progress: str
    fleet: str
    created_by: str
    trace: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class PostgresOperations:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def create(
        self, kind: str, request: Mapping[str, Any], fleet: str, created_by: str, trace: str, now: datetime
    ) -> Operation:
        row: dict[str, Any] = {"id": f"op{secrets.token_hex(_ID_BYTES)}", "kind": kind, "state": OperationState.QUEUED}
        row |= {"request": dict(request), "progress": "", "fleet": fleet, "created_by": created_by, "trace": trace}
        new = insert(operation).values(row | {"attempts": 0, "created_at": now}).returning(*operation.c)
        return _operation(self.database.read(new)[0])

    def load(self, operation_id: str) -> Operation:
        """Raises NotStoredError."""
        row = self.database.read_one(select(operation).where(operation.c.id == operation_id))
        if row is None:
            raise not_stored("operation", operation_id, ())
        return _operation(row)

    def page(
        self, limit: int, before: tuple[datetime, str] | None = None, fleet: str | None = None, kind: str | None = None
    ) -> tuple[Operation, ...]:
        """List operations, the newest first."""
        query = select(operation).order_by(operation.c.created_at.desc(), operation.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(tuple_(operation.c.created_at, operation.c.id) < before)
        if fleet is not None:
            query = query.where(operation.c.fleet == fleet)
        if kind is not None:
            query = query.where(operation.c.kind == kind)
        return tuple(_operation(row) for row in self.database.read(query))

    def of_plan(
        self, kind: str, plan: str, fleet: str, states: Sequence[OperationState] = DONE, most: int = 1
    ) -> tuple[Operation, ...]:
        """List those about a plan of a fleet that are in one of `states`, the newest first."""
        about = operation.c.request["plan"].as_string() == plan
        asked = and_(operation.c.kind == kind, operation.c.fleet == fleet, about)
        query = select(operation).where(asked, operation.c.state.in_(states))
        rows = self.database.read(query.order_by(operation.c.created_at.desc()).limit(most))
        return tuple(_operation(row) for row in rows)

    def waiting(self) -> int:
        """Count the operations that a worker could take up now."""
        return int(self.database.read_column(select(func.count()).where(_free()))[0])

    def open_count(self) -> int:
        """Count the operations that have not ended."""
        return int(self.database.read_column(select(func.count()).where(operation.c.state.in_(OPEN)))[0])

    def claim(self, holder: str, lease: timedelta, now: datetime) -> Operation | None:
        """The oldest that is free, for `holder` from now on; None: there is none. Two never get the same.

        What has failed its holders MAX_ATTEMPTS times is ended as failed on the way.
        """
        oldest = select(operation.c.id, operation.c.attempts).where(_free())
        oldest = oldest.order_by(operation.c.created_at).limit(1).with_for_update(skip_locked=True)
        while True:
            with self.database.transaction() as connection:
                found = connection.execute(oldest).one_or_none()
                if found is None:
                    return None
                taken = update(operation).where(operation.c.id == found.id).returning(*operation.c)
                if found.attempts < MAX_ATTEMPTS:
                    values = {"state": OperationState.RUNNING, "attempts": found.attempts + 1, "lease": holder}
                    values |= {"lease_until": func.now() + lease, "started_at": now, "progress": ""}
                    return _operation(connection.execute(taken.values(values)).one())
                problem = {
                    "name": "worker-died",
                    "detail": f"its process ended {MAX_ATTEMPTS} times before it was done",
                }
                values = {"state": OperationState.FAILED, "problem": problem, "lease": None, "finished_at": now}
                connection.execute(taken.values(values))

    def renew(self, operation_id: str, holder: str, lease: timedelta, progress: str) -> bool:
        """Renew the holder's lease and return whether it still is the holder's: it may have been cancelled, or taken up
        by another."""
        renewed = _held(operation_id, holder).values(lease_until=func.now() + lease, progress=progress)
        return self._write(renewed)

    def succeed(self, operation_id: str, holder: str, result: Mapping[str, Any], now: datetime) -> None:
        """StaleVersionError: it is not the holder's any more, and nothing is written."""
        self._finish(operation_id, holder, OperationState.SUCCEEDED, {"result": dict(result)}, now)

    def fail(self, operation_id: str, holder: str, problem: Mapping[str, Any], now: datetime) -> None:
        """StaleVersionError as above."""
        self._finish(operation_id, holder, OperationState.FAILED, {"problem": dict(problem)}, now)

    def hand_back(self, operation_id: str, holder: str) -> bool:
        """Hand back an operation that was begun and not done, through no fault of its own: anybody's again, at once."""
        values: dict[str, Any] = {"state": OperationState.QUEUED, "lease": None, "lease_until": None, "progress": ""}
        values |= {"attempts": operation.c.attempts - 1}
        return self._write(_held(operation_id, holder).values(values))

    def cancel(self, operation_id: str, now: datetime) -> Operation:
        """Cancel an operation; its worker notices with the next renewal. One that has ended stays as it is.
        NotStoredError."""
        cancelled = update(operation).where(operation.c.id == operation_id, operation.c.state.in_(OPEN))
        cancelled = cancelled.values(state=OperationState.CANCELLED, finished_at=now, lease=None, lease_until=None)
        self._write(cancelled)
        return self.load(operation_id)

    def _finish(
        self, operation_id: str, holder: str, state: OperationState, outcome: dict[str, Any], now: datetime
    ) -> None:
        values = {"state": state, "finished_at": now, "lease": None, "lease_until": None, "progress": ""}
        if not self._write(_held(operation_id, holder).values(values | outcome)):
            raise StaleVersionError(f"operation {operation_id} was cancelled or taken up by another process")

    def _write(self, change: Any) -> bool:
        return bool(self.database.read(change.returning(operation.c.id)))


def _free() -> Any:
    abandoned = and_(operation.c.state == OperationState.RUNNING, operation.c.lease_until < func.now())
    return or_(operation.c.state == OperationState.QUEUED, abandoned)


def _held(operation_id: str, holder: str) -> Any:
    return update(operation).where(
        operation.c.id == operation_id, operation.c.state == OperationState.RUNNING, operation.c.lease == holder
    )


def _operation(row: Row[Any]) -> Operation:
    def read(body: bytes | None) -> dict[str, Any] | None:
        return None if body is None else msgspec.json.decode(body)

    return Operation(
        row.id, row.kind, OperationState(row.state), read(row.request) or {}, read(row.result), read(row.problem),
        row.progress, row.fleet, row.created_by, row.trace, row.created_at, row.started_at, row.finished_at,
    )  # fmt: skip
