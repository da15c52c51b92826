"""Calls of a run that failed, and which of them are called again together."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from control.runs.record import CallRecord, CallState


def failed_calls(records: Iterable[CallRecord]) -> dict[str, CallRecord]:
    """Return those that failed, by call path."""
    return {record.call.path: record for record in records if record.state is CallState.FAILED}


def failed_together(failed: Mapping[str, CallRecord], paths: Collection[str]) -> set[str]:
    """Return those of `paths` that failed, with what failed because it takes their results, and with what they take and
    why they failed: to call one of these again without the others brings nothing."""
    near: defaultdict[str, set[str]] = defaultdict(set)
    for path, record in failed.items():
        for taken in failed.keys() & set(record.call.takes):
            near[path].add(taken)
            near[taken].add(path)
    found, left = set[str](), list(failed.keys() & set(paths))
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += near[path] - found
    return found
