"""Runs and calls as people and programs see them: plain values."""

from typing import Any

import msgspec

from control.runs.record import CallRecord, CallState, RunRecord
from medley_sdk.flows.messages import CallKind


def plain(data: bytes) -> Any:
    """Return a value of MessagePack as JSON has it: bytes are base64, and keys that JSON cannot have are text."""
    try:
        value = msgspec.msgpack.decode(data)
        try:
            shown = msgspec.json.encode(value)
        except (TypeError, ValueError):
            shown = msgspec.json.encode(_with_text_keys(value), enc_hook=str)
    except (TypeError, ValueError, RecursionError) as error:  # such as keys that no dict of Python has
        return f"cannot be shown: {error}"
    return msgspec.json.decode(shown)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _with_text_keys(each) for key, each in value.items()}
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value


def shown_run(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "project": run.project,
        "workflow": run.workflow,
        "version": run.version,
        "state": str(run.state),
        "reason": run.reason,
        "arguments": run.arguments,
        "durable": run.durable,
        "usd": run.usd,
        "max_usd": run.max_usd,
        "created_at": run.created_at,
        "created_by": run.created_by,
        "deadline_at": run.deadline_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "wake_at": run.wake_at,
        "holder": run.holder,
    }


def shown_call(record: CallRecord) -> dict[str, Any]:
    """Show a call. A large result is left out."""
    return {
        "path": record.call.path,
        "kind": str(record.call.kind),
        "target": record.call.target,
        "takes": list(record.call.takes),
        "effects": str(record.call.effects),
        "state": str(record.state),
        "reason": "" if record.failure is None else record.failure.reason,
        "caught": record.caught,
        "result": plain(record.value) if record.value else None,
        "usd": record.usd,
        "made_at": record.made_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "due_at": record.due_at,
    }


def emitted(calls: list[CallRecord]) -> list[Any]:
    """Return what a run has emitted, in the order in which it came; what is large is left out."""
    emits = [each for each in calls if each.call.kind is CallKind.EMIT and each.state is CallState.DONE]
    return [plain(each.value) for each in sorted(emits, key=lambda each: each.seq) if each.value]
