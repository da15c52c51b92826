"""Runs of workflows in PostgreSQL, as those see them who ask for them, watch them, and end them."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, literal, null, select, tuple_, update

from control.db.database import Database
from control.db.errors import InUseError, NotStoredError
from control.db.nearest import not_stored
from control.db.run_journal import RunJournal, settle_row
from control.db.run_rows import call_of, calls_of, calls_shown, place_of, run_of
from control.db.run_tables import workflow_call, workflow_run, workflow_signal
from control.db.workflows import StoredWorkflow
from control.runs.failed_calls import failed_calls, failed_together
from control.runs.record import CallRecord, CallState, RunRecord, Settled, path_order
from control.runs.run_state import OPEN, RESUMABLE, RunState
from medley_sdk.flows.messages import CallKind, Effects, FlowCall

_ID_BYTES = 8
MOST_SHOWN_BYTES = 1 << 16
"""Bytes of a result of a call that people and programs are shown."""
MOST_EMITS = 1000
MOST_SIGNALS = 1000
"""Signals that a run holds and has not taken."""


@dataclass(frozen=True, slots=True)
class PostgresRuns:
    """Every method also raises DatabaseUnavailableError; those that name a run NotStoredError."""

    database: Database

    def create(self, flow: StoredWorkflow, arguments: dict[str, Any], by: str, now: datetime) -> RunRecord:
        """Ask for a run: some orchestrator takes it."""
        about = flow.about
        deadline = None if about.deadline_s is None else now + timedelta(seconds=about.deadline_s)
        row = {
            "id": f"r{secrets.token_hex(_ID_BYTES)}",
            "project": flow.project,
            "workflow": flow.name,
            "version_id": flow.version,
            "arguments": arguments,
            "state": RunState.QUEUED,
            "durable": about.durable,
            "max_calls": about.max_calls,
            "max_usd": about.max_usd,
            "created_by": by,
            "created_at": now,
            "deadline_at": deadline,
        }
        made = self.database.read_one(insert(workflow_run).values(row).returning(workflow_run))
        assert made is not None  # noqa: S101 - a row that is inserted is returned
        return run_of(made)

    def load(self, run_id: str, project: str | None = None) -> RunRecord:
        """`project`: a run of another one is as good as none, and no near ids are named."""
        with self.database.transaction() as connection:
            if project is None:
                return _load(connection, run_id)
            mine = (workflow_run.c.id == run_id, workflow_run.c.project == project)
            row = connection.execute(select(workflow_run).where(*mine)).one_or_none()
        if row is None:
            raise not_stored("run", run_id, ())
        return run_of(row)

    def page(
        self,
        limit: int,
        project: str | None = None,
        workflow: str | None = None,
        state: RunState | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[RunRecord]:
        """List runs, the newest first, those made before (created at, id)."""
        run = workflow_run.c
        query = select(workflow_run).order_by(run.created_at.desc(), run.id.desc()).limit(limit)
        for column, wanted in ((run.project, project), (run.workflow, workflow), (run.state, state)):
            if wanted is not None:
                query = query.where(column == wanted)
        if before is not None:
            query = query.where(tuple_(run.created_at, run.id) < before)
        return [run_of(row) for row in self.database.read(query)]

    def calls(
        self, run_id: str, limit: int | None = None, after: tuple[datetime, str] | None = None
    ) -> list[CallRecord]:
        """Return the calls of a run, in the order in which they were made, those after (made at, path); large results,
        and what they are given, are left out."""
        made_at, place = workflow_call.c.made_at, place_of(workflow_call.c.path)
        query = calls_shown(run_id, MOST_SHOWN_BYTES).order_by(made_at, place).limit(limit)
        if after is not None:
            query = query.where(tuple_(made_at, place) > tuple_(after[0], place_of(literal(after[1]))))
        with self.database.transaction() as connection:
            _load(connection, run_id)
            return [call_of(row) for row in connection.execute(query)]

    def emits(self, run_id: str, after: int = 0, most: int = MOST_EMITS) -> list[CallRecord]:
        """Return what a run has emitted, so many at the most, those whose `seq` is above `after`; large values are left
        out (`value` has them). No run: nothing."""
        call = workflow_call.c
        mine = (call.kind == CallKind.EMIT, call.state == CallState.DONE, call.seq > after)
        query = calls_shown(run_id, MOST_SHOWN_BYTES).where(*mine).order_by(call.seq).limit(most)
        return [call_of(row) for row in self.database.read(query)]

    def value(self, run_id: str, path: str) -> bytes:
        """Return the result of a call that is done, as MessagePack, however large it is."""
        call = workflow_call.c
        mine = (call.run_id == run_id, call.path == path, call.state == CallState.DONE)
        row = self.database.read_one(select(call.value, call.blob).where(*mine))
        if row is None:
            raise NotStoredError(f"run {run_id} has no result of a call {path}: was the run deleted, or resumed?")
        return bytes(row.value) if row.blob is None else RunJournal(self.database).blob(run_id, row.blob)

    def made(self, project: str, workflow: str, most: int, most_calls: int) -> list[list[FlowCall]]:
        """Return the calls of models and services of runs that are done, those that ended last, each in the order in
        which it made them. `most`: runs; `most_calls`: of each, its first."""
        run, call = workflow_run.c, workflow_call.c
        done = select(run.id).where(run.project == project, run.workflow == workflow, run.state == RunState.DONE)
        newest = done.order_by(run.ended_at.desc()).limit(most)
        # Where a run made more at the same time, those that come first by length and letters of their paths.
        order = (call.made_at, func.length(call.path), call.path)
        place = func.row_number().over(partition_by=call.run_id, order_by=order).label("place")
        work = call.run_id.in_(newest), call.kind.in_((CallKind.MODEL, CallKind.SERVICE))
        placed = select(call.run_id, call.made_at, call.call, place).where(*work).subquery()
        rows = self.database.read(select(placed).where(placed.c.place <= most_calls))
        found: dict[str, list[tuple[datetime, tuple[int, ...], FlowCall]]] = {}
        for row in rows:
            made = msgspec.msgpack.decode(row.call, type=FlowCall)
            found.setdefault(row.run_id, []).append((row.made_at, path_order(made.path), made))
        return [[made for *_, made in sorted(calls, key=lambda each: each[:2])] for calls in found.values()]

    def answer(self, run_id: str) -> bytes | None:
        """Return what a run answered, as MessagePack; None: nothing yet."""
        run = workflow_run.c
        row = self.database.read_one(select(run.answer, run.answer_blob).where(run.id == run_id))
        if row is None or row.answer_blob is None:
            return None if row is None else row.answer
        return RunJournal(self.database).blob(run_id, row.answer_blob)

    def cancel(self, run_id: str, now: datetime) -> RunRecord:
        """End a run that nobody holds at once, and ask the holder of any other to. One that has ended stays as it
        is."""
        with self.database.transaction() as connection:
            found = _load(connection, run_id, for_update=True)
            held = {"cancel_asked": True}
            gone = {"state": RunState.CANCELLED, "ended_at": now, "wake_at": None, "cancel_asked": True}
            if found.state in OPEN:
                values = held if found.state is RunState.RUNNING else gone
                connection.execute(update(workflow_run).where(workflow_run.c.id == run_id).values(values))
            return _load(connection, run_id)

    def send(self, run_id: str, name: str, value: bytes, by: str, now: datetime) -> None:
        """Send a signal, whose value is MessagePack. Raises InUseError for a run that has ended, and for too many."""
        signal = workflow_signal.c
        with self.database.transaction() as connection:
            run = _load(connection, run_id, for_update=True)
            if run.state not in OPEN:
                raise InUseError(f"run {run_id} is {run.state}: it takes no signal any more")
            held = select(func.count()).where(signal.run_id == run_id, signal.taken_by.is_(None))
            if connection.execute(held).scalar_one() >= MOST_SIGNALS:
                raise InUseError(f"run {run_id} has {MOST_SIGNALS} signals that it has not taken: wait until it has")
            row = {"run_id": run_id, "name": name, "value": value, "sent_at": now}
            connection.execute(insert(workflow_signal).values(row | {"sent_by": by}))
            if run.state is RunState.WAITING:
                connection.execute(update(workflow_run).where(workflow_run.c.id == run_id).values(wake_at=now))

    def resume(
        self, run_id: str, now: datetime, resolved: Mapping[str, bytes | None], max_usd: float | None = None
    ) -> RunRecord:
        """Have a run that failed go on: what failed in it is forgotten, with all that was called after. What failed and
        its code went on without stays as it is.

        `resolved`: of calls of which nobody knows what became of them, call path → result (MessagePack), or None to
        start it once more; None also for other calls that failed and are to be called again though the code went on
        without them. `max_usd`: its budget from now on. Raises InUseError for a run that did not fail, where calls with
        external effects were made after what failed, and where an uncertain call is not resolved."""
        with self.database.transaction() as connection:
            run = _load(connection, run_id, for_update=True)
            if run.state not in RESUMABLE:
                raise InUseError(f"run {run_id} is {run.state}: only one that failed can be resumed")
            calls = calls_of(connection, run_id)
            failed = failed_calls(calls)
            ended_it = {path for path, each in failed.items() if not each.caught}
            again = [failed[path] for path in failed_together(failed, ended_it | resolved.keys())]
            _check_resolved(run_id, failed, again, resolved)
            _forget(connection, run, calls, again, resolved)
            for each in again:
                if (result := resolved.get(each.call.path)) is not None:
                    settle_row(connection, run_id, Settled(each.call.path, each.seq, result), now)
            values: dict[str, Any] = {"state": RunState.QUEUED, "reason": "", "ended_at": None, "restarts": 0}
            values["cancel_asked"] = False  # it failed before it could be cancelled: who resumes it wants it to go on
            if max_usd is not None:
                values["max_usd"] = max_usd
            connection.execute(update(workflow_run).where(workflow_run.c.id == run_id).values(values))
            return _load(connection, run_id)


def _load(connection: Connection, run_id: str, *, for_update: bool = False) -> RunRecord:
    query = select(workflow_run).where(workflow_run.c.id == run_id)
    row = connection.execute(query.with_for_update() if for_update else query).one_or_none()
    if row is None:
        begun = select(workflow_run.c.id).where(workflow_run.c.id.startswith(run_id[:3], autoescape=True)).limit(100)
        raise not_stored("run", run_id, connection.execute(begun).scalars().all())
    return run_of(row)


def _check_resolved(
    run_id: str, failed: Mapping[str, CallRecord], again: Sequence[CallRecord], resolved: Mapping[str, bytes | None]
) -> None:
    """Raise InUseError where it is not said what becomes of an uncertain call that would be called again, or is said of
    another call."""
    uncertain = {path for path, each in failed.items() if each.failure and each.failure.kind == "uncertain"}
    needed = uncertain & {each.call.path for each in again}
    if not needed <= resolved.keys():
        paths = ", ".join(sorted(needed, key=path_order))
        raise InUseError(f"run {run_id}: say what becomes of its uncertain calls, each of them: {paths}")
    for path, result in resolved.items():
        if path not in failed:
            raise InUseError(f"run {run_id}: call {path} did not fail; `medley runs show {run_id}` lists its calls")
        if result is not None and path not in uncertain:
            raise InUseError(f"run {run_id}: call {path} certainly failed: it has no result; have it called again")


def _forget(
    connection: Connection,
    run: RunRecord,
    calls: Sequence[CallRecord],
    failed: Sequence[CallRecord],
    resolved: Mapping[str, bytes | None],
) -> None:
    """Open again what failed, and drop what may have been called because of it, what failed later too. Raises
    InUseError where that had external effects."""
    call = workflow_call.c
    first = min((each.seq for each in failed), default=0)
    after = [each for each in calls if failed and each.made_after >= first]
    # What is called again has had no effects, unless somebody says that it was done.
    undone = {each.call.path for each in failed if resolved.get(each.call.path) is None}
    effective = (each for each in after if each.call.effects is Effects.EXTERNAL and each.started_at is not None)
    kept = [each for each in effective if each.call.path not in undone]
    if kept:
        raise InUseError(
            f"run {run.id} called {kept[0].call.target} ({kept[0].call.path}), which has external effects, after what "
            "failed: it cannot go on from there; start another run"
        )
    dropped = [each.call.path for each in after]
    mine = call.run_id == run.id
    connection.execute(delete(workflow_call).where(mine, call.path.in_(dropped)))
    # Signals that these calls took are there for the next that asks.
    signal = workflow_signal.c
    freed = update(workflow_signal).where(signal.run_id == run.id, signal.taken_by.in_(dropped))
    connection.execute(freed.values(taken_by=None))
    connection.execute(update(workflow_call).where(mine).values(caught=False))
    opened = {"state": CallState.OPEN, "failure": null(), "seq": 0, "started_at": None, "ended_at": None}
    paths = [each.call.path for each in failed]
    connection.execute(update(workflow_call).where(mine, call.path.in_(paths)).values(opened))
