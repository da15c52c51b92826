"""A worker: a process that holds services of one app, and computes one batch after the other."""

import math
import threading
import time
from collections.abc import Mapping, Sequence

from control.orchestrator.code_process import WORKER, CodeProcess
from control.orchestrator.failures import RunBrokeError, RunnerLostError
from control.orchestrator.measured_times import MeasuredTimes
from control.orchestrator.service_queue import Computed, Numbered, Queued
from control.orchestrator.service_turns import ServiceTurns
from control.orchestrator.settings import OrchestratorSettings
from control.runs.record import AppVersion
from medley_sdk.flows.messages import (
    Batch,
    DropService,
    FromWorker,
    Item,
    LoadApp,
    LoadService,
    Outcome,
    ServiceDropped,
    ServiceInfo,
    ServiceLoaded,
)
from medley_sdk.messages import Fault
from policies.workflows.shared_place import ExpectedPlace, Place, QueuedBatch, expected_batches

LOADS = 3
"""Times that a worker whose process dies while it loads is started."""


class ServiceWorker:
    """Its thread hands over a batch when the one before has ended, and loads what is wanted soon when nothing waits.
    What there is no room for takes the place of services that nothing needs (DyOrc, section 5.4). Threads may add calls
    at the same time."""

    def __init__(
        self,
        version: AppVersion,
        services: Mapping[str, ServiceInfo],
        times: MeasuredTimes,
        settings: OrchestratorSettings,
        *,
        network: bool,
    ) -> None:
        """`times`: of the app, which it adds to."""
        self._load = LoadApp(version.file, version.source, network=network)
        self._services, self._load_s, self._needs_isolation = services, settings.load_s, settings.needs_isolation
        self._times = times
        self._turns = ServiceTurns(services, times, settings.worker_memory_mib)
        self._memory = self._turns.memory
        """Changed by its thread alone."""
        self._process: CodeProcess | None = None
        self._busy: QueuedBatch | None = None
        """What is computed now, or loaded, which has no calls; its times by the monotonic clock."""
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=f"services of {version.id[:8]}", daemon=True)
        self._thread.start()

    def compute(self, call: Queued, run: str) -> None:
        """`done` of the call is called once, from the worker's thread, unless its run is over before it is computed.
        `run`: whose call it is, which may have been expected."""
        with self._changed:
            self._turns.add(call, run)
            self._changed.notify()

    def expect(self, run: str, promised: Sequence[str], ahead: Sequence[str]) -> None:
        """Know what a run will have computed here, in place of what was expected of it before: the services of calls
        that it has made, one each, and those that are predicted, which are loaded when nothing waits."""
        with self._changed:
            self._turns.expect(run, promised, ahead)
            self._changed.notify()

    def expected(self, run: str) -> ExpectedPlace:
        """Return what it has before it, in seconds from now, but for what is expected of a run."""
        now_s = time.monotonic()
        services = self._times.services
        with self._changed:
            before, busy = self._turns.before(run), self._busy
            is_new = busy is not None and busy.service not in self._memory
            process_s = 0.0 if self._process is not None else self._times.process_s
        running, loaded_s = None, dict.fromkeys(before.here, 0.0)
        if busy is not None:
            running = QueuedBatch(busy.service, busy.calls, -1.0, max(0.0, busy.ends_s - now_s))
            if is_new:
                loaded_s[busy.service] = running.ends_s
        unloaded = [name for name in dict.fromkeys(before.waiting) if name not in loaded_s]
        batches = expected_batches(running, [services[name] for name in before.waiting], process_s, unloaded)
        ends_s = max((batch.ends_s for batch in batches), default=process_s)
        for name in unloaded:
            loaded_s[name] = next(batch.starts_s for batch in batches if batch.service == name and batch.starts_s >= 0)
        for name in before.ahead:
            if name not in loaded_s:
                ends_s += services[name].load_s
                loaded_s[name] = ends_s
        return ExpectedPlace(Place(batches, loaded_s), process_s, self._services.keys())

    def close(self) -> None:
        """End the process, whatever it computes."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
            if self._process is not None:
                self._process.kill()
        self._thread.join()

    def _work(self) -> None:
        while (next_ := self._next()) is not None:
            if isinstance(next_, str):
                self._load_ahead(next_)
            elif next_:
                self._have_computed(next_)
            self._end()
        self._drop()

    def _next(self) -> list[Numbered] | str | None:
        """Wait for a batch, which is empty where runs ended before their calls, or, where nothing waits, for a service
        to load; None: it is over."""
        turns = self._turns
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or len(turns.queue) > 0 or turns.wanted() is not None)
            if self._is_over:
                return None
            return turns.batch() if len(turns.queue) > 0 else turns.wanted()

    def _load_ahead(self, name: str) -> None:
        info = self._services[name]
        self._begin(info, 0)
        if not self._make_room(name, ahead=True):
            return  # as is known now: it is wanted no more until something goes
        try:
            failure = self._loaded_service(self._loaded(), info)
        except (RunBrokeError, RunnerLostError) as error:
            self._drop()
            failure = str(error)
        if not failure and not self._make_room(name, ahead=True):
            self._unload(name)
            failure = "what it takes, which was not known, is too much beside what is needed"
        if failure:
            with self._changed:
                self._turns.never_ahead.add(name)

    def _have_computed(self, batch: list[Numbered]) -> None:
        calls = [call for _, call in batch]
        info = self._services[calls[0].service]
        self._begin(info, len(calls))
        is_new = info.name not in self._memory
        if is_new and self._turns.is_too_large(info.name):
            self._settle(calls, Computed(failure=self._too_large(info)))
            return
        if is_new and not self._make_room(info.name):
            if self._is_needed_before(info.name):
                self._put_back(batch)
                return
            self._drop()  # what it does not give back, goes with it
        try:
            process = self._loaded()
        except (RunBrokeError, RunnerLostError) as error:
            self._settle(calls, Computed(failure=f"service {info.name} cannot be loaded: {error}"))
            return
        try:
            failure = self._loaded_service(process, info)
        except RunnerLostError as error:
            self._drop()
            self._settle(calls, Computed(failure=_named(info, f"while it loads, {error}"), was_lost=True))
        except RunBrokeError:
            self._drop()
            late = _named(info, f"loading takes more than {info.timeout_s:g} s (`timeout_s`)")
            self._settle(calls, Computed(failure=late))
        else:
            if failure:
                self._settle(calls, Computed(failure=_named(info, f"cannot be loaded: {failure}")))
            elif is_new and not (self._make_room(info.name) and info.name in self._memory):
                self._leave(info, batch)
            else:
                self._compute(process, calls)

    def _leave(self, info: ServiceInfo, batch: list[Numbered]) -> None:
        """Have a batch wait whose service is loaded and takes more than there is room for, which was not known before;
        or fail it, where nothing else has ever been in the process."""
        if info.name not in self._memory:  # the process ended, while it dropped others
            self._put_back(batch)
        elif self._is_needed_before(info.name):
            self._unload(info.name)
            self._put_back(batch)
        elif self._memory.loads > 1:
            self._drop()  # what is left of others goes with it
            self._put_back(batch)
        else:
            self._drop()
            self._times.services[info.name].is_too_large = True
            self._settle([call for _, call in batch], Computed(failure=self._too_large(info)))

    def _make_room(self, name: str, *, ahead: bool = False) -> bool:
        """Drop services until one has room, or, where it is there, until all are within the bound; tell whether it has.
        `ahead`: no call waits for it."""
        self._measure()
        while out := self._out(name, ahead=ahead):
            self._unload(out[0])
        return out is not None

    def _out(self, name: str, *, ahead: bool) -> list[str] | None:
        with self._changed:
            return self._turns.out(name, ahead=ahead)

    def _is_needed_before(self, name: str) -> bool:
        with self._changed:
            return self._turns.is_needed_before(name)

    def _put_back(self, batch: list[Numbered]) -> None:
        with self._changed:
            self._turns.put_back(batch)

    def _unload(self, name: str) -> None:
        """Have the process drop a service; one that does not is ended, with all that it has: it computes nothing."""
        process = self._process
        try:
            is_dropped = process is not None and isinstance(
                process.asked(DropService(name), self._load_s), ServiceDropped
            )
        except (RunnerLostError, RunBrokeError):
            is_dropped = False
        if not is_dropped:
            self._drop()
            return
        with self._changed:
            self._memory.dropped(name)
        self._measure()

    def _measure(self) -> None:
        """Note what the process takes, where that has a bound."""
        if self._process is not None and self._memory.most_mib is not None:
            resident_mib = self._process.resident_mib()
            with self._changed:
                self._memory.resident_mib = resident_mib

    def _too_large(self, info: ServiceInfo) -> str:
        takes_mib, process_mib = self._times.services[info.name].memory_mib, self._times.process_mib
        return _named(
            info,
            f"it takes {takes_mib:.0f} MiB of memory, and its process {process_mib:.0f} MiB without it, which is more "
            f"than the {self._memory.most_mib} MiB that a worker may take: start the orchestrator with "
            f"--worker-memory-mib {math.ceil(takes_mib + process_mib) + 1} or more, or have the service hold less",
        )

    def _loaded(self) -> CodeProcess:
        """Return the process, with the code of the app."""
        for tries in range(LOADS):
            if self._process is not None:
                break
            began_s = time.monotonic()
            try:
                process = CodeProcess(WORKER, FromWorker)
            except OSError as error:  # such as too many processes
                raise RunnerLostError(f"its process cannot be started: {error}") from error
            with self._changed:
                self._process = process
                if self._is_over:
                    process.kill()
            try:
                process.load(self._load, self._load_s, needs_isolation=self._needs_isolation)
                self._times.process_s = time.monotonic() - began_s
                self._measure()
                self._times.process_mib = self._memory.resident_mib
            except RunnerLostError:
                self._drop()
                if tries + 1 == LOADS or self._is_over:
                    raise
            except RunBrokeError:
                self._drop()
                raise
        assert self._process is not None  # noqa: S101 - the last try raises
        return self._process

    def _loaded_service(self, process: CodeProcess, info: ServiceInfo) -> str:
        """Have the process load a service that it has not; return why it cannot, empty where it can."""
        if info.name in self._memory:
            return ""
        began_s, before_mib = time.monotonic(), self._memory.resident_mib
        with self._changed:
            self._memory.loads += 1
        process.write(LoadService(info.name), self._load_s)
        answer = process.read(info.timeout_s)
        if isinstance(answer, Fault):
            return answer.reason
        if not isinstance(answer, ServiceLoaded):
            raise RunnerLostError(f"its process says {type(answer).__name__} where a service loads")
        took_s = time.monotonic() - began_s
        self._measure()
        self._times.services[info.name].loaded(took_s, self._memory.resident_mib - before_mib)
        with self._changed:
            self._memory.used(info.name)
            self._turns.never_ahead.discard(info.name)
        return ""

    def _begin(self, info: ServiceInfo, calls: int) -> float:
        """Note what is done now, a batch of so many calls, or none: a load; return when it began, by the monotonic
        clock."""
        times, began_s = self._times.services[info.name], time.monotonic()
        with self._changed:
            takes_s = 0.0 if self._process is not None else self._times.process_s
            takes_s += 0.0 if info.name in self._memory else times.load_s
            takes_s += times.batch_s(calls) if calls else 0.0
            self._busy = QueuedBatch(info.name, calls, began_s, began_s + takes_s)
        return began_s

    def _end(self) -> None:
        with self._changed:
            self._busy = None

    def _compute(self, process: CodeProcess, batch: list[Queued]) -> None:
        info = self._services[batch[0].service]
        left, is_handed_over = list(batch), False
        began_s = self._begin(info, len(batch))
        with self._changed:
            self._memory.used(info.name)
        try:
            process.write(Batch(info.name, len(batch)), self._load_s)
            for call in batch:
                process.write(Item(call.call, call.given), self._load_s)
            is_handed_over = True  # before that it computes nothing: it reads all of a batch first
            while left:
                outcome = process.read(info.timeout_s)
                if not isinstance(outcome, Outcome):
                    raise RunnerLostError(f"its process says {type(outcome).__name__} where results are waited for")
                if len(left) == len(batch):
                    self._times.services[info.name].computed(len(batch), time.monotonic() - began_s)
                    self._end()  # before runs are told, and ask where to go on
                self._settle([left.pop(0)], _of(outcome, info))
        except RunnerLostError as error:
            self._drop()
            lost = Computed(failure=_named(info, str(error)), is_begun=is_handed_over, was_lost=True)
            self._settle(left, lost)
        except RunBrokeError:
            self._drop()
            late = _named(info, f"a batch takes more than {info.timeout_s:g} s (`timeout_s`)")
            self._settle(left, Computed(failure=late, is_begun=True))

    def _settle(self, calls: list[Queued], computed: Computed) -> None:
        for call in calls:
            call.done(computed)

    def _drop(self) -> None:
        with self._changed:
            process, self._process = self._process, None
            self._memory.ended()
        if process is not None:
            process.end()


def _of(outcome: Outcome, info: ServiceInfo) -> Computed:
    return Computed(outcome.value, _named(info, outcome.failure), is_begun=outcome.begun)


def _named(info: ServiceInfo, failure: str) -> str:
    return f"service {info.name}: {failure}" if failure else ""
