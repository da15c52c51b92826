"""Calls of a run that failed, and which of them are called again together."""

from collections.abc import Collection, Iterable, Mapping

from control.runs.record import CallRecord, CallState


def failed_calls(records: Iterable[CallRecord]) -> dict[str, CallRecord]:
    """Return those that failed, by call path."""
    return {record.call.path: record for record in records if record.state is CallState.FAILED}


def failed_together(failed: Mapping[str, CallRecord], paths: Collection[str]) -> set[str]:
    """Return those of `paths` that failed, with what failed because it takes their results, and with what they take and
    why they failed: to call one of these again without the others brings nothing."""
    found = failed.keys() & set(paths)
    while True:
        taken = {path for each in found for path in failed[each].call.takes}
        near = {path for path, each in failed.items() if path in taken or not found.isdisjoint(each.call.takes)}
        if near <= found:
            return found
        found |= near
