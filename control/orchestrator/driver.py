"""Executes one run: takes what its code calls, records it, has it done, and hands back the outcomes."""

import hashlib
import queue
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from control.db.errors import DeposedError
from control.db.run_journal import RunJournal
from control.orchestrator.call_places import MOST_TOGETHER
from control.orchestrator.code_process import RUNNER, CodeProcess
from control.orchestrator.failures import RunBrokeError, RunnerLostError
from control.orchestrator.patient_journal import PatientJournal
from control.orchestrator.settings import OrchestratorSettings
from control.orchestrator.started_calls import CallEnded, StartedCalls
from control.runs.book import RunBook
from control.runs.losses import Losses
from control.runs.record import INLINE_BYTES, AppVersion, CallRecord, CallState, RunRecord, Settled, path_order
from control.runs.run_state import RESUMABLE, RunState
from medley_sdk.errors import NonDeterminismError
from medley_sdk.flows.messages import (
    MOST_RESULT_BYTES,
    Broke,
    CallKind,
    Deliver,
    Failure,
    Finished,
    FlowCall,
    FromRunner,
    LoadApp,
    Start,
    Step,
)
from medley_sdk.packing import filled, unpacked

_LONGEST_WAIT_S = 60.0
_DEADLINE_LOOK_S = 1.0
"""Between two looks at a run's deadline while its code is not executed."""
_NULL = msgspec.msgpack.encode(None)
_WORK = (CallKind.MODEL, CallKind.SERVICE, CallKind.EMIT)


class Stop(StrEnum):
    CANCEL = "cancel"
    LOST = "lost"
    """Another orchestrator has the run, or may."""
    HAND_BACK = "hand_back"
    """This orchestrator ends."""


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal has come that nobody took."""


class _Over(Exception):  # noqa: N818 - no failure: the driver leaves the run
    pass


class _Ended(Exception):  # noqa: N818 - no failure
    """The run is over before its code is."""

    def __init__(self, state: RunState, reason: str) -> None:
        super().__init__(reason)
        self.state = state


class RunDriver:
    """`drive` returns when the run has ended, or is to be left to others. Threads may hand it events meanwhile."""

    def __init__(
        self,
        run: RunRecord,
        version: AppVersion,
        journal: RunJournal,
        calls: StartedCalls,
        settings: OrchestratorSettings,
    ) -> None:
        self.run = run
        self._version, self._calls, self._settings, self._clock = version, calls, settings, calls.clock
        self.events: queue.SimpleQueue[CallEnded | Signalled | Stop] = queue.SimpleQueue()
        self._journal = PatientJournal(journal)
        self._book = RunBook()
        self._usd = run.usd
        self._causes: tuple[str, ...] = ()
        """Paths of the calls for whose failures the code ended."""

    def drive(self) -> None:
        try:
            if not self.run.durable and self.run.restarts:
                raise _Ended(RunState.FAILED, "its orchestrator was lost; only durable runs go on then")
            self._book = RunBook(self._journal.calls(self.run))
            self._calls.made(self._book.made())
            self._end(*self._executed())
        except _Ended as end:
            self._end(end.state, str(end))
        except (DeposedError, _Over):
            return
        finally:
            self._calls.over()

    def _end(self, state: RunState, reason: str = "", answer: bytes | None = None) -> None:
        self._calls.over()  # before it is on record: nothing of a run that has ended is begun
        caught = self._book.caught(self._causes) if state in RESUMABLE else ()
        try:
            self._journal.end(self.run, state, self._clock(), reason, answer, caught)
        except DeposedError:
            return
        if state is RunState.DONE:
            self._calls.learn()

    def _executed(self) -> tuple[RunState, str, bytes | None]:
        """Execute the code, again where its process is lost, until it ends; return how."""
        settings, losses = self._settings, Losses(self.run.restarts, self._book.outcomes)
        while True:
            if why := losses.are_enough(settings.most_restarts, settings.most_kills):
                return RunState.FAILED, why, None
            self._pause(losses.pause_s(settings.most_pause_s))
            process = CodeProcess(RUNNER, FromRunner)
            try:
                return self._to_its_end(process)
            except RunnerLostError as error:
                losses.add(self._book.outcomes, str(error), was_killed=error.was_killed)
                self._book.executed_again()
            except (RunBrokeError, NonDeterminismError) as error:
                return RunState.FAILED, str(error), None
            finally:
                process.end()

    def _pause(self, seconds: float) -> None:
        """Wait before the code is executed again, and note what comes of calls meanwhile."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self._check_time()
            with suppress(queue.Empty):
                self._note_event(self.events.get(timeout=min(left_s, _DEADLINE_LOOK_S)))

    def _to_its_end(self, process: CodeProcess) -> tuple[RunState, str, bytes | None]:
        settings, version = self._settings, self._version
        ask = LoadApp(version.file, version.source, settings.limits)
        loaded = process.load(ask, settings.load_s, needs_isolation=settings.needs_isolation)
        self._calls.loaded(loaded.services)
        self._check_time()
        message: Any = process.asked(Start(self.run.workflow, self.run.id, self.run.arguments), settings.step_s)
        while isinstance(message, Step):
            self._take(message.calls)
            outcome = self._outcome(message.awaits)
            message = process.asked(self._delivery(outcome), settings.step_s)
        if isinstance(message, Finished):
            return self._finished(message)
        if isinstance(message, Broke):
            return self._broke(message)
        raise RunnerLostError(f"its process says {type(message).__name__}")

    def _finished(self, message: Finished) -> tuple[RunState, str, bytes | None]:
        self._take(message.calls)
        self._await_work()
        self._book.ended()
        given = [self._book[path] for path in message.gives]
        failure = next((each.failure for each in given if each.failure is not None), None)
        if failure is not None:
            self._causes = message.gives
            return _state_of(failure.kind), failure.reason, None
        answer = filled(message.answer, [self._value(each) for each in given])
        if len(answer) > MOST_RESULT_BYTES:
            return RunState.FAILED, f"its answer has {len(answer)} bytes; {MOST_RESULT_BYTES} are the most", None
        return RunState.DONE, "", answer

    def _broke(self, message: Broke) -> tuple[RunState, str, bytes | None]:
        self._take(message.calls)
        self._await_work()
        self._causes = message.causes
        return _state_of(message.fault.why), message.fault.reason, None

    def _take(self, calls: tuple[FlowCall, ...]) -> None:
        """Record what the code calls, then start what can be."""
        now = self._clock()
        records = []
        if self._book.announced_calls + len(calls) > self.run.max_calls:  # its own process counts too, if it is honest
            raise RunBrokeError(f"calls more than {self.run.max_calls} times (`max_calls`)")
        for call in self._book.announced(calls):
            is_ready = call.kind in _WORK and all(self._is_known(path) for path in call.takes)
            started = now if is_ready else None
            records.append(CallRecord(call, now, self._book.outcomes, _due(call, now), started))
        if records:
            self._journal.intend(self.run, records, (), now)
        for record in records:
            self._book.recorded(record)
        self._calls.made(sorted((each.call for each in records), key=lambda call: path_order(call.path)))
        self._start()
        self._calls.place((), self._book.waiting)  # what follows may be loaded though nothing could be started

    def _is_known(self, path: str) -> bool:
        return self._book.has(path) and self._book[path].state is not CallState.OPEN

    def _start(self) -> None:
        """Start all calls that can be, and those that can be once others of them have ended at once."""
        while ready := self._book.startable():
            marks = [each.call.path for each in ready if each.started_at is None and each.call.kind is CallKind.SERVICE]
            if marks:
                self._journal.intend(self.run, (), marks, self._clock())
            for first in range(0, len(ready), MOST_TOGETHER):
                self._start_together(ready[first : first + MOST_TOGETHER])

    def _start_together(self, ready: list[CallRecord]) -> None:
        """Start calls, of which places see all when one is chosen."""
        book = self._book
        failures = {each.call.path: book.failed_input(each) or _left_open(each, book) for each in ready}
        self._calls.place([each.call for each in ready if failures[each.call.path] is None], book.waiting)
        for record in ready:
            book.started(record.call.path)
            if (failure := failures[record.call.path]) is not None:
                self._settle(record, failure=failure)
            else:
                self._start_one(record)

    def _start_one(self, record: CallRecord) -> None:
        call = record.call
        if call.kind is CallKind.SIGNAL:
            self._take_signal(record)
            return
        if call.kind is CallKind.SLEEP:
            return
        given = filled(call.given, [self._value(self._book[path]) for path in call.takes])
        if len(given) > MOST_RESULT_BYTES:
            size = f"is given {len(given)} bytes; {MOST_RESULT_BYTES} are the most"
            self._settle(record, failure=Failure("call", f"{call.kind} {call.target}: {size}"))
        elif call.kind is CallKind.EMIT:
            self._settle(record, value=msgspec.msgpack.encode(unpacked(given, ())[0][0]))
        elif (failure := self._calls.start(record, given, self._usd, self.events)) is not None:
            self._settle(record, failure=failure)

    def _settle(self, record: CallRecord, value: bytes = b"", failure: Failure | None = None, usd: float = 0.0) -> None:
        seq = self._book.outcomes + 1
        self._journal.settle(self.run, Settled(record.call.path, seq, value, failure, usd), self._clock())
        self._usd += usd
        self._note(record, seq, value, failure)

    def _note(self, record: CallRecord, seq: int, value: bytes, failure: Failure | None) -> None:
        state = CallState.DONE if failure is None else CallState.FAILED
        kept = value if len(value) <= INLINE_BYTES or not self.run.durable else b""
        blob = hashlib.sha256(value).digest() if len(kept) < len(value) else b""
        self._book.recorded(replace(record, state=state, seq=seq, value=kept, blob=blob, failure=failure))

    def _outcome(self, awaits: tuple[str, ...]) -> CallRecord:
        """Wait until something has come of one of these calls."""
        while (found := self._book.next_outcome(awaits)) is None:
            self._wait()
        return found

    def _await_work(self) -> None:
        """Wait for all that is computed: what was called has its effects, though nobody waits for its result."""
        while self._book.open(*_WORK):
            self._wait()

    def _wait(self) -> None:
        """Wait until something happens, and note it."""
        self._check_time()
        if self._settle_due():
            return
        self._park()
        due = [each.due_at for each in self._book.open(CallKind.SLEEP, CallKind.SIGNAL)] + [self.run.deadline_at]
        left_s = [(at - self._clock()).total_seconds() for at in due if at is not None]
        try:
            event = self.events.get(timeout=max(0.0, min(left_s, default=_LONGEST_WAIT_S)))
        except queue.Empty:
            return
        self._note_event(event)
        self._start()

    def _note_event(self, event: CallEnded | Signalled | Stop) -> None:
        match event:
            case Signalled():
                for record in self._book.open(CallKind.SIGNAL):
                    self._take_signal(record)
            case CallEnded():
                self._ended(event)
            case Stop():
                self._stop(event)

    def _stop(self, why: Stop) -> None:
        if why is Stop.CANCEL:
            raise _Ended(RunState.CANCELLED, "was cancelled")
        if why is Stop.HAND_BACK and self.run.durable:
            self._drain()
            self._calls.over()  # before another orchestrator may start the same
            self._journal.hand_back(self.run)
        raise _Over

    def _drain(self) -> None:
        """Wait a while for calls with external effects that are under way: to leave them open makes them uncertain."""
        until_s = time.monotonic() + self._settings.drain_s
        while self._book.effects_under_way() and (left_s := until_s - time.monotonic()) > 0:
            with suppress(queue.Empty):
                event = self.events.get(timeout=left_s)
                if isinstance(event, CallEnded) and not event.again:
                    self._ended(event)

    def _ended(self, event: CallEnded) -> None:
        record = self._book[event.path]
        if event.again:
            given = filled(record.call.given, [self._value(self._book[path]) for path in record.call.takes])
            self._calls.start(record, given, self._usd, self.events, tries=event.tries + 1)
        else:
            self._settle(record, event.value, event.failure, event.usd)
            self._calls.counted(event.path)

    def _check_time(self) -> None:
        if self.run.deadline_at is not None and self.run.deadline_at <= self._clock():
            raise _Ended(RunState.EXPIRED, "was not done by its deadline")

    def _settle_due(self) -> bool:
        """Settle what has waited long enough: sleeps, and signals that did not come."""
        now = self._clock()
        due = [each for each in self._book.open(CallKind.SLEEP, CallKind.SIGNAL) if each.due_at and each.due_at <= now]
        for record in sorted(due, key=lambda each: (each.due_at, each.made_at)):
            self._settle(record, _NULL)
        if due:
            self._start()
        return bool(due)

    def _take_signal(self, record: CallRecord) -> None:
        seq = self._book.outcomes + 1
        value = self._journal.take_signal(self.run, record, seq, self._clock())
        if value is not None:
            self._note(record, seq, value, None)

    def _park(self) -> None:
        """Let go of a run that only waits, for long: whoever takes it then executes its code again."""
        if not self._book.only_waits():
            return
        still = self._book.open(CallKind.SLEEP, CallKind.SIGNAL)
        due = [at for at in (*(each.due_at for each in still), self.run.deadline_at) if at is not None]
        wake_at = min(due, default=None)
        if wake_at is not None and wake_at - self._clock() <= timedelta(seconds=self._settings.park_s):
            return
        if self._journal.park(self.run, [each.call.target for each in still], wake_at):
            raise _Over

    def _value(self, record: CallRecord) -> bytes:
        return self._journal.blob(self.run.id, record.blob) if record.blob else record.value

    def _delivery(self, record: CallRecord) -> Deliver:
        value = b"" if record.failure is not None else self._value(record)
        return Deliver(record.call.path, value, record.failure)


def _due(call: FlowCall, now: datetime) -> datetime | None:
    if call.kind not in (CallKind.SLEEP, CallKind.SIGNAL) or call.timeout_s is None:
        return None
    return now + timedelta(seconds=call.timeout_s)


def _left_open(record: CallRecord, book: RunBook) -> Failure | None:
    """Return the failure of a call that may not be started again; None: it may."""
    if not book.is_uncertain(record):
        return None
    call, why = record.call, "it was started before its orchestrator was lost"
    return Failure("uncertain", f"{call.kind} {call.target}, call {call.path}: {why}; nobody knows what became of it")


def _state_of(why: str) -> RunState:
    """Return how a run ends for a fault of its code, or a failure of a call that it returns."""
    return {"budget": RunState.OVER_BUDGET, "uncertain": RunState.UNCERTAIN}.get(why, RunState.FAILED)
