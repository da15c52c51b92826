"""Records and replays of one task, for the requests that come (Cornserve, section 5.2)."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from control.tasks.failure import TaskFailedError
from control.tasks.task_process import TaskProcess
from medley_sdk.messages import RecordOne, Replay
from medley_sdk.packing import unpacked
from medley_sdk.values import CallRef, Record, Signature

KEPT = 1024
"""Records that are kept, those that were used last."""


class TaskRunner:
    """Requests of one signature and with the same choices share a record: the code of a task sees nothing else of them.
    Threads may use it at the same time. Raises TaskFailedError where the code fails."""

    def __init__(self, process: TaskProcess, task: str, *, kept: int = KEPT) -> None:
        self._process, self._task, self._kept = process, task, kept
        self._records: OrderedDict[tuple[Signature, tuple[int, ...]], Record] = OrderedDict()
        self._lock = Lock()

    def known(self, signature: Signature, choices: tuple[int, ...] = ()) -> Record | None:
        """Return the record of a request without running code; None: it is not kept."""
        with self._lock:
            if (found := self._records.get((signature, choices))) is not None:
                self._records.move_to_end((signature, choices))
            return found

    def record(self, signature: Signature, choices: tuple[int, ...] = ()) -> Record:
        """Return the calls of a request. `choices`: those of the way that the plan has for it (`Way.choices`)."""
        if (known := self.known(signature, choices)) is not None:
            return known
        (record,) = self._process.ask(RecordOne(self._task, signature, choices)).records
        with self._lock:
            self._records[signature, choices] = record
            while len(self._records) > self._kept:
                self._records.popitem(last=False)
        return record

    def answer(self, record: Record, values: Sequence[Any]) -> Any:
        """Return what the task answers when its calls gave `values`, one each: from the record alone where the code
        awaits nothing, else from its replay, which is given the texts among them."""
        if len(values) != len(record.calls):
            raise TaskFailedError(f"{len(values)} values for {len(record.calls)} calls; give one for each")
        if record.awaits is not None:
            texts = tuple(value if isinstance(value, str) else None for value in values)
            (record,) = self._process.ask(Replay(self._task, record, texts)).records
        given = [values[ref.call] for ref in record.gives if isinstance(ref, CallRef)]
        if len(given) < len(record.gives):
            raise TaskFailedError("the code returns a part of the request; it has to return what its units give")
        return unpacked(record.answer, given)
