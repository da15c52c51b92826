"""The journal of runs in PostgreSQL: who holds a run, what it is about to call, and what came of it."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, case, func, null, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from control.db.database import Database
from control.db.errors import DeposedError, NotStoredError
from control.db.run_rows import call_row, calls_of, run_of, store_blob
from control.db.run_tables import workflow_blob, workflow_call, workflow_run, workflow_signal
from control.runs.record import INLINE_BYTES, CallRecord, CallState, RunRecord, Settled
from control.runs.run_state import RunState


@dataclass(frozen=True, slots=True)
class RunNews:
    """Ids of runs."""

    signalled: set[str] = field(default_factory=set)
    """They have signals that nobody took."""
    cancelled: set[str] = field(default_factory=set)
    """Somebody wants them cancelled."""


@dataclass(frozen=True, slots=True)
class RunJournal:
    """What the holder of runs writes. Every method is one transaction, and also raises DatabaseUnavailableError; those
    that take a run raise DeposedError once another has taken it, or it was ended: leave it alone then."""

    database: Database

    def claim(self, holder: str, now: datetime, lease: timedelta, held: Collection[str] = ()) -> RunRecord | None:
        """Take the oldest run that nobody holds and that can go on; None: there is none. Claims at the same time get
        different runs. `held`: ids of runs that whoever asks executes, which it renews rather, however late."""
        run = workflow_run.c
        can_go_on = or_(
            run.state == RunState.QUEUED,
            and_(run.state == RunState.RUNNING, run.lease_until < now),
            and_(run.state == RunState.WAITING, run.wake_at <= now),
        )
        oldest = (
            select(run.id)
            .where(can_go_on, run.id.not_in(held))
            .order_by(run.created_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        taken = update(workflow_run).where(run.id == oldest.scalar_subquery()).values(
            state=RunState.RUNNING,
            holder=holder,
            epoch=run.epoch + 1,
            lease_until=now + lease,
            wake_at=None,
            started_at=func.coalesce(run.started_at, now),
            restarts=run.restarts + case((run.state == RunState.RUNNING, 1), else_=0),
        )  # fmt: skip
        row = self.database.read_one(taken.returning(workflow_run))
        return None if row is None else run_of(row)

    def renew(self, held: Collection[tuple[str, int]], now: datetime, lease: timedelta) -> set[str]:
        """Hold runs, (id, epoch) each, for another while. Returns the ids of those that are held still."""
        if not held:
            return set()
        run = workflow_run.c
        mine = or_(*(and_(run.id == run_id, run.epoch == epoch) for run_id, epoch in held))
        renewed = update(workflow_run).where(mine, run.state == RunState.RUNNING).values(lease_until=now + lease)
        return set(self.database.read_column(renewed.returning(run.id)))

    def hand_back(self, run: RunRecord) -> None:
        """Let another orchestrator have a run at once."""
        values = {"state": RunState.QUEUED, "lease_until": None}
        self.database.write(update(workflow_run).where(*_held(run)).values(values))

    def calls(self, run: RunRecord) -> list[CallRecord]:
        with self.database.transaction() as connection:
            _check(connection, run)
            return calls_of(connection, run.id)

    def intend(self, run: RunRecord, records: Sequence[CallRecord], started: Sequence[str], now: datetime) -> None:
        """Record calls that are about to be made, and that those of the paths `started` are started now."""
        with self.database.transaction() as connection:
            _check(connection, run)
            if records:
                rows = [call_row(run.id, record) for record in records]
                connection.execute(insert(workflow_call).on_conflict_do_nothing(), rows)  # the same once more: no harm
            if started:
                call = workflow_call.c
                mine = update(workflow_call).where(call.run_id == run.id, call.path.in_(started))
                connection.execute(mine.values(started_at=now))

    def settle(self, run: RunRecord, settled: Settled, now: datetime) -> None:
        """Record the outcome of a call, once: one that has an outcome keeps it."""
        is_progress = bool(settled.usd or run.restarts)
        with self.database.transaction() as connection:
            _check(connection, run, for_update=is_progress)
            if settle_row(connection, run.id, settled, now) and is_progress:
                row = workflow_run.c
                progress = {"restarts": 0, "usd": row.usd + settled.usd}
                connection.execute(update(workflow_run).where(row.id == run.id).values(progress))

    def take_signal(self, run: RunRecord, record: CallRecord, seq: int, now: datetime) -> bytes | None:
        """Give a call the oldest signal of its name that nobody took, as its outcome, and return it; None: there is
        none. Again: the same."""
        signal = workflow_signal.c
        mine = (signal.run_id == run.id, signal.name == record.call.target)
        with self.database.transaction() as connection:
            _check(connection, run)
            is_free = or_(signal.taken_by == record.call.path, signal.taken_by.is_(None))
            order = (signal.taken_by.is_(None), signal.id)  # what this call has taken before comes first
            found = select(signal.id, signal.value).where(*mine, is_free).order_by(*order).limit(1)
            row = connection.execute(found).one_or_none()
            if row is None:
                return None
            taken = update(workflow_signal).where(signal.id == row.id).values(taken_by=record.call.path)
            connection.execute(taken)
            settle_row(connection, run.id, Settled(record.call.path, seq, row.value), now)
        return bytes(row.value)

    def news(self, runs: Collection[str]) -> RunNews:
        """Return what has come for these runs from outside."""
        if not runs:
            return RunNews()
        signal, run = workflow_signal.c, workflow_run.c
        untaken = select(signal.run_id).where(signal.run_id.in_(runs), signal.taken_by.is_(None)).distinct()
        cancelled = select(run.id).where(run.id.in_(runs), run.cancel_asked)
        return RunNews(set(self.database.read_column(untaken)), set(self.database.read_column(cancelled)))

    def park(self, run: RunRecord, names: Collection[str], wake_at: datetime | None) -> bool:
        """Let go of a run that only waits: for signals of these names, and for a time. False: a signal has come, or
        somebody wants it cancelled, which its holder alone does."""
        signal = workflow_signal.c
        with self.database.transaction() as connection:
            _check(connection, run, for_update=True)  # whoever sends a signal waits for the row, and wakes the run then
            came = select(signal.id).where(signal.run_id == run.id, signal.name.in_(names), signal.taken_by.is_(None))
            if connection.execute(came.limit(1)).first() is not None:
                return False
            asked = select(workflow_run.c.cancel_asked).where(workflow_run.c.id == run.id)
            if connection.execute(asked).scalar_one():
                return False
            values = {"state": RunState.WAITING, "lease_until": None, "wake_at": wake_at, "restarts": 0}
            connection.execute(update(workflow_run).where(workflow_run.c.id == run.id).values(values))
        return True

    def end(
        self,
        run: RunRecord,
        state: RunState,
        now: datetime,
        reason: str = "",
        answer: bytes | None = None,
        caught: Collection[str] = (),
    ) -> None:
        """`caught`: paths of calls that failed, and without whose results its code went on."""
        values: dict[str, Any] = {"state": state, "reason": reason, "ended_at": now, "lease_until": None}
        with self.database.transaction() as connection:
            _check(connection, run, for_update=True)
            if answer is not None and len(answer) > INLINE_BYTES:
                values["answer_blob"] = hashlib.sha256(answer).digest()
                store_blob(connection, run.id, values["answer_blob"], answer)
            else:
                values["answer"] = answer
            connection.execute(update(workflow_run).where(workflow_run.c.id == run.id).values(values))
            if caught:
                mine = (workflow_call.c.run_id == run.id, workflow_call.c.path.in_(caught))
                connection.execute(update(workflow_call).where(*mine).values(caught=True))

    def blob(self, run_id: str, digest: bytes) -> bytes:
        """Raises NotStoredError."""
        blob = workflow_blob.c
        row = self.database.read_one(select(blob.data).where(blob.run_id == run_id, blob.digest == digest))
        if row is None:
            raise NotStoredError(f"run {run_id} has no blob {digest.hex()}: was it deleted by hand?")
        return bytes(row.data)


def settle_row(connection: Connection, run_id: str, settled: Settled, now: datetime) -> bool:
    """Write the outcome of a call that has none; False: it has one."""
    call, is_blob = workflow_call.c, settled.failure is None and len(settled.value) > INLINE_BYTES
    digest = hashlib.sha256(settled.value).digest() if is_blob else None
    values = {
        "state": CallState.DONE if settled.failure is None else CallState.FAILED,
        "seq": settled.seq,
        "value": None if is_blob or settled.failure is not None else settled.value,
        "blob": digest,
        "failure": null() if settled.failure is None else settled.failure,
        "ended_at": now,
        "usd": settled.usd,
    }
    mine = (call.run_id == run_id, call.path == settled.path, call.state == CallState.OPEN)
    if not connection.execute(update(workflow_call).where(*mine).values(values)).rowcount:
        return False
    if digest is not None:
        store_blob(connection, run_id, digest, settled.value)
    return True


def _held(run: RunRecord) -> tuple[Any, ...]:
    row = workflow_run.c
    return row.id == run.id, row.epoch == run.epoch, row.state == RunState.RUNNING


def _check(connection: Connection, run: RunRecord, *, for_update: bool = False) -> None:
    """Raise DeposedError unless the run is held in this epoch; nobody else can take it before the transaction has
    ended."""
    mine = select(workflow_run.c.id).where(*_held(run)).with_for_update(read=not for_update)
    if connection.execute(mine).scalar_one_or_none() is None:
        raise DeposedError(
            f"run {run.id} is not held in epoch {run.epoch} any more: another orchestrator has it, or it ended"
        )
