"""What one run has called, and what came of it. The journal is its beginning; what it says is recorded before it is
acted upon.

A run is executed from its start whenever it is taken up. Its code calls the same again, under the same call paths, and
finds the outcomes that are on record, one by one and in the order in which they came, so that it takes the same turns.
"""

from collections.abc import Collection, Iterable, Sequence

from control.runs.failed_calls import failed_calls, failed_together
from control.runs.record import CallRecord, CallState, path_order
from medley_sdk.errors import NonDeterminismError
from medley_sdk.flows.messages import CallKind, Effects, Failure, FlowCall


class RunBook:
    def __init__(self, records: Iterable[CallRecord] = ()) -> None:
        self._records = {record.call.path: record for record in records}
        self._announced: set[str] = set()
        """By the execution that goes on now."""
        self._left_open = {path for path, record in self._records.items() if record.started_at is not None}
        """Started by whoever had the run before, as far as their outcomes are missing."""
        self._started: set[str] = set()
        """By this orchestrator, since it has the run."""
        self._delivered: set[str] = set()
        self.outcomes = max((record.seq for record in self._records.values()), default=0)

    def __getitem__(self, path: str) -> CallRecord:
        return self._records[path]

    def made(self) -> list[FlowCall]:
        """Return the calls that are on record, in the order in which they were made."""
        found = sorted(self._records.values(), key=lambda each: (each.made_at, path_order(each.call.path)))
        return [each.call for each in found]

    @property
    def announced_calls(self) -> int:
        """Calls that the code has made in this execution."""
        return len(self._announced)

    def effects_under_way(self) -> bool:
        """Tell whether a call that may not be started again is under way."""
        open_ = (self._records[path] for path in self._started if self._records[path].state is CallState.OPEN)
        return any(each.call.effects is Effects.EXTERNAL and not each.call.idempotent for each in open_)

    def has(self, path: str) -> bool:
        return path in self._records

    def executed_again(self) -> None:
        """The process of the code is gone: another one executes it from its start. What was started goes on."""
        self._announced.clear()
        self._delivered.clear()

    def announced(self, calls: Sequence[FlowCall]) -> list[FlowCall]:
        """Note what the code calls; return the calls that are not on record. Raises NonDeterminismError at the first
        that is another than before."""
        new = []
        for call in calls:
            known = self._records.get(call.path)
            self._announced.add(call.path)
            if known is None:
                new.append(call)
            elif known.call != call:
                before, now = (f"{each.kind} {each.target}".strip() for each in (known.call, call))
                what = f"{now}, before {before}" if before != now else f"{now}, with other arguments than before"
                raise NonDeterminismError(
                    f"call {call.path} is {what}: when a run is executed again, its code has to call the same; leave "
                    "out random numbers, the time, and what other runs left"
                )
        return new

    def ended(self) -> None:
        """Raise NonDeterminismError where the code ended without a call that it had made before."""
        missing = sorted(set(self._records) - self._announced, key=path_order)
        if missing:
            record = self._records[missing[0]]
            raise NonDeterminismError(
                f"call {missing[0]}, {record.call.kind} {record.call.target}, is on record, and was not made when the "
                "run was executed again"
            )

    def recorded(self, record: CallRecord) -> None:
        """A call, or what has become of it, is on record now."""
        self._records[record.call.path] = record
        self.outcomes = max(self.outcomes, record.seq)

    def startable(self) -> list[CallRecord]:
        """Return the calls that can be started now, in their order: made again, open, with all inputs there, and not
        started by this orchestrator. One of its inputs may have failed (`failed_input`)."""
        found = [record for path in self._announced if (record := self._records[path]).state is CallState.OPEN]
        ready = (
            record
            for record in found
            if record.call.path not in self._started
            and all(self._records[path].state is not CallState.OPEN for path in record.call.takes)
        )
        return sorted(ready, key=lambda record: path_order(record.call.path))

    def failed_input(self, record: CallRecord) -> Failure | None:
        failures = (self._records[path].failure for path in record.call.takes)
        return next((each for each in failures if each is not None), None)

    def is_uncertain(self, record: CallRecord) -> bool:
        """Tell whether a call was started before, may not be started again, and has no outcome."""
        left_open = record.call.path in self._left_open and record.call.path not in self._started
        return left_open and record.call.effects is Effects.EXTERNAL and not record.call.idempotent

    def started(self, path: str) -> None:
        self._started.add(path)

    def caught(self, causes: Collection[str]) -> list[str]:
        """Return the failed calls without whose results the code went on, in their order. `causes`: those for whose
        failures it ended. What failed and was not handed over yet is none of them: nobody knows what the code would
        have done."""
        failed = failed_calls(self._records.values())
        handed_over = failed_together(failed, self._delivered)
        late = {path for path in failed if path in self._announced and path not in handed_over}
        return sorted(failed.keys() - failed_together(failed, causes) - late, key=path_order)

    def open(self, *kinds: CallKind) -> list[CallRecord]:
        """Return the calls of these kinds that the code has made and that have no outcome, in their order."""
        made = (self._records[path] for path in sorted(self._announced, key=path_order))
        return [each for each in made if each.state is CallState.OPEN and each.call.kind in kinds]

    def waiting(self) -> list[FlowCall]:
        """Return the calls of services that the code has made and that nobody has started, in their order."""
        open_ = self.open(CallKind.SERVICE)
        return [each.call for each in open_ if each.call.path not in self._started]

    def next_outcome(self, awaits: Sequence[str]) -> CallRecord | None:
        """Return the outcome that the code is given next: of what it waits for, the one that came first."""
        known = [self._records[path] for path in awaits if path not in self._delivered]
        ended = [record for record in known if record.state is not CallState.OPEN]
        found = min(ended, key=lambda record: record.seq, default=None)
        if found is not None:
            self._delivered.add(found.call.path)
        return found

    def only_waits(self) -> bool:
        """Tell whether nothing but times and signals can bring the run on: what is called with the results of these
        waits for them too."""
        under_way = (each.call.path in self._started for each in self.open(CallKind.MODEL, CallKind.SERVICE))
        return not any(under_way) and not self.startable()
