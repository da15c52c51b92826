"""Tasks of a file as plans take them: recorded for requests of each type, twice, in two processes that do not agree on
anything that a record may not depend on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from msgspec.structs import replace

from control.tasks.failure import TaskFailedError
from control.tasks.task_process import TaskProcess
from control.tasks.task_source import TaskSource
from medley_sdk.messages import Branches, Replay, TaskInfo
from medley_sdk.values import Record, Signature
from templates_lib.tasks.samples import samples, type_of
from templates_lib.values.nearest_name import nearest_name

TEXT = "a text"
"""What a decoder wrote, for code that awaits it."""


@dataclass(frozen=True, slots=True)
class RecordedTask:
    name: str
    of: str
    """Graph of its units: a name, or a path relative to the file."""
    records: tuple[Record, ...]
    """Every way through its choices, for each signature of its request types. Where the code awaits a text, with the
    answer that it gives to one."""


class TwoRecorders:
    """Two processes of one file, which order sets each in its own way."""

    def __init__(self, source: TaskSource) -> None:
        self.source = source
        self._first, self._second = TaskProcess(source, hash_seed=1), TaskProcess(source, hash_seed=2)

    def tasks(self) -> tuple[TaskInfo, ...]:
        """List the workflows of the file. Raises TaskFailedError where it cannot be loaded."""
        return self._first.tasks()

    def recorded(self, name: str) -> RecordedTask:
        """Raises LookupError with the nearest name; TaskFailedError for code that raises, has no end, uses too much, or
        calls another thing when it runs again."""
        known = {each.name: each for each in self.tasks()}
        if name not in known:
            raise LookupError(f"{self.source.file}: has no workflow {name!r}; {nearest_name(name, known)}")
        signatures = [each for kind in samples(known[name].takes, known[name].makes).values() for each in kind]
        found = {each: self._all(self._first, name, each) for each in signatures}
        for each in [*signatures, *reversed(signatures)]:  # twice, so that what is remembered from before shows
            self._compare(each, found[each], self._all(self._second, name, each))
        records = tuple(record for each in signatures for record in found[each])
        return RecordedTask(name, self._graph(records), records)

    def close(self) -> None:
        self._first.close()
        self._second.close()

    @staticmethod
    def _all(process: TaskProcess, name: str, signature: Signature) -> tuple[Record, ...]:
        """Records of every choice, to their ends."""
        found = []
        for record in process.ask(Branches(name, signature)).records:
            ended = record
            if record.awaits is not None:
                (ended,) = process.ask(Replay(name, record, (TEXT,) * len(record.calls))).records
            found.append(replace(ended, awaits=record.awaits))
        return tuple(found)

    def _compare(self, signature: Signature, first: tuple[Record, ...], second: tuple[Record, ...]) -> None:
        if first == second:
            return
        is_same = [(each.calls, each.choices) for each in first] == [(each.calls, each.choices) for each in second]
        what = "answers" if is_same else "calls or chooses"
        raise TaskFailedError(
            f"{self.source.file}: {type_of(signature)}: {what} another thing when the same request runs again; leave "
            "out what changes from run to run: random numbers, the time, the order of sets, what earlier requests left"
        )

    def _graph(self, records: tuple[Record, ...]) -> str:
        named = {call.unit.of: None for record in records for call in record.calls}
        if len(named) != 1:
            what = f"calls units of {', '.join(named)}; a task is of one graph" if named else "calls no unit"
            raise TaskFailedError(f"{self.source.file}: {what}")
        return next(iter(named))


@contextmanager
def two_recorders(source: TaskSource) -> Iterator[TwoRecorders]:
    recorders = TwoRecorders(source)
    try:
        yield recorders
    finally:
        recorders.close()


@lru_cache(maxsize=64)
def recorded_task(source: TaskSource, name: str) -> RecordedTask:
    """One task of a file: recorded once for each content of the file. Raises as `TwoRecorders.recorded`."""
    with two_recorders(source) as recorders:
        return recorders.recorded(name)
