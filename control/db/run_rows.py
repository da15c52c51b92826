"""Rows of runs and calls, as values."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Numeric, Row, Select, case, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from control.db.run_tables import workflow_blob, workflow_call
from control.runs.record import CallRecord, CallState, RunRecord, path_order
from control.runs.run_state import RunState
from medley_sdk.flows.messages import Failure, FlowCall

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(FlowCall)


def run_of(row: Row[Any]) -> RunRecord:
    return RunRecord(
        id=row.id,
        project=row.project,
        workflow=row.workflow,
        version=row.version_id,
        arguments=msgspec.json.decode(row.arguments),
        state=RunState(row.state),
        created_at=row.created_at.astimezone(UTC),
        durable=row.durable,
        max_calls=row.max_calls,
        max_usd=row.max_usd,
        deadline_at=_utc(row.deadline_at),
        reason=row.reason,
        started_at=_utc(row.started_at),
        ended_at=_utc(row.ended_at),
        wake_at=_utc(row.wake_at),
        holder=row.holder,
        epoch=row.epoch,
        restarts=row.restarts,
        cancel_asked=row.cancel_asked,
        usd=row.usd,
        created_by=row.created_by,
    )


def call_row(run_id: str, record: CallRecord) -> dict[str, Any]:
    """Return the row of a call that is made: it has no outcome yet."""
    return {
        "run_id": run_id,
        "path": record.call.path,
        "call": _ENCODER.encode(msgspec.structs.replace(record.call, given=b"")),
        "kind": record.call.kind,
        "given": record.call.given,
        "made_at": record.made_at,
        "made_after": record.made_after,
        "due_at": record.due_at,
        "started_at": record.started_at,
        "state": record.state,
        "seq": record.seq,
    }


def call_of(row: Row[Any], given: bytes = b"") -> CallRecord:
    return CallRecord(
        call=msgspec.structs.replace(_DECODER.decode(row.call), given=given),
        made_at=row.made_at.astimezone(UTC),
        made_after=row.made_after,
        due_at=_utc(row.due_at),
        started_at=_utc(row.started_at),
        state=CallState(row.state),
        seq=row.seq,
        value=row.value or b"",
        blob=row.blob or b"",
        failure=None if row.failure is None else msgspec.json.decode(row.failure, type=Failure),
        ended_at=_utc(row.ended_at),
        usd=row.usd,
        caught=row.caught,
    )


def calls_of(connection: Connection, run_id: str) -> list[CallRecord]:
    """Return all calls of a run, in the order in which they were made."""
    rows = connection.execute(select(workflow_call).where(workflow_call.c.run_id == run_id)).all()
    calls = [call_of(row, row.given) for row in rows]
    return sorted(calls, key=lambda each: (each.made_at, path_order(each.call.path)))


def calls_shown(run_id: str, most_bytes: int) -> "Select[Any]":
    """Select the calls of a run without what they are given, and without results larger than `most_bytes`."""
    call = workflow_call.c
    small = case((func.octet_length(call.value) <= most_bytes, call.value)).label("value")
    columns = [small if column is call.value else column for column in call if column is not call.given]
    return select(*columns).where(call.run_id == run_id)


def place_of(path: ColumnElement[str]) -> ColumnElement[Any]:
    """Sort call paths as `path_order` does."""
    return cast(func.string_to_array(path, "."), ARRAY(Numeric))


def store_blob(connection: Connection, run_id: str, digest: bytes, data: bytes) -> None:
    row = {"run_id": run_id, "digest": digest, "data": data}
    connection.execute(insert(workflow_blob).values(row).on_conflict_do_nothing())


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
