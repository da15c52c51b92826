"""A worker: a process that holds services of one app, and computes one batch after the other."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from control.orchestrator.code_process import WORKER, CodeProcess
from control.orchestrator.failures import RunBrokeError, RunnerLostError
from control.orchestrator.measured_times import MeasuredTimes
from control.orchestrator.service_queue import Computed, Queued, ServiceQueue
from control.orchestrator.settings import OrchestratorSettings
from control.runs.record import AppVersion
from medley_sdk.flows.messages import Batch, FromWorker, Item, LoadApp, LoadService, Outcome, ServiceInfo, ServiceLoaded
from medley_sdk.messages import Fault
from policies.workflows.shared_place import ExpectedPlace, Place, QueuedBatch, expected_batches

LOADS = 3
"""Times that a worker whose process dies while it loads is started."""


@dataclass(slots=True)
class _Soon:
    """What a run that goes on will have computed here: services."""

    promised: list[str]
    """Of calls that it has made, each with its place here, and that are not in the queue yet."""
    ahead: Sequence[str]
    """Of calls that are predicted."""


class ServiceWorker:
    """Its thread hands over a batch when the one before has ended, and loads what is wanted soon when nothing waits.
    Threads may add calls at the same time."""

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
        self._queue = ServiceQueue({name: info.max_batch for name, info in services.items()})
        self._soon: dict[str, _Soon] = {}
        """By run."""
        self._process: CodeProcess | None = None
        self._has: set[str] = set()
        """Services that the process has loaded."""
        self._never_ahead: set[str] = set()
        """Services that could not be loaded when no call waited for them: calls will say why."""
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
            soon = self._soon.get(run)
            if soon is not None and call.service in soon.promised:
                soon.promised.remove(call.service)
            self._queue.add(call)
            self._changed.notify()

    def expect(self, run: str, promised: Sequence[str], ahead: Sequence[str]) -> None:
        """Know what a run will have computed here, in place of what was expected of it before: the services of calls
        that it has made, one each, and those that are predicted, which are loaded when nothing waits."""
        with self._changed:
            if promised or ahead:
                self._soon[run] = _Soon(list(promised), ahead)
                self._changed.notify()
            else:
                self._soon.pop(run, None)

    def expected(self, run: str) -> ExpectedPlace:
        """Return what it has before it, in seconds from now, but for what is expected of a run."""
        now_s = time.monotonic()
        services = self._times.services
        with self._changed:
            others = [soon for other, soon in self._soon.items() if other != run]
            waiting = self._queue.services() + [service for soon in others for service in soon.promised]
            ahead = [service for soon in others for service in soon.ahead]
            busy, has = self._busy, set(self._has)
            process_s = 0.0 if self._process is not None else self._times.process_s
        running, loaded_s = None, dict.fromkeys(has, 0.0)
        if busy is not None:
            running = QueuedBatch(busy.service, busy.calls, -1.0, max(0.0, busy.ends_s - now_s))
            loaded_s.setdefault(busy.service, running.ends_s)
        unloaded = [name for name in dict.fromkeys(waiting) if name not in loaded_s]
        batches = expected_batches(running, [services[name] for name in waiting], process_s, unloaded)
        ends_s = max((batch.ends_s for batch in batches), default=process_s)
        for name in unloaded:
            loaded_s[name] = next(batch.starts_s for batch in batches if batch.service == name and batch.starts_s >= 0)
        for name in dict.fromkeys(ahead):
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

    def _next(self) -> list[Queued] | str | None:
        """Wait for a batch, which is empty where runs ended before their calls, or, where nothing waits, for a service
        to load; None: it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or len(self._queue) > 0 or self._wanted() is not None)
            if self._is_over:
                return None
            if len(self._queue) > 0:
                return self._queue.batch()
            return self._wanted()

    def _wanted(self) -> str | None:
        """Return a service that calls will need soon and that can be loaded; None: there is none."""
        known = self._has | self._never_ahead
        soon = (name for each in self._soon.values() for name in (*each.promised, *each.ahead))
        return next((name for name in soon if name not in known), None)

    def _load_ahead(self, name: str) -> None:
        info = self._services[name]
        self._begin(info, 0)
        try:
            failure = self._loaded_service(self._loaded(), info)
        except (RunBrokeError, RunnerLostError) as error:
            self._drop()
            failure = str(error)
        if failure:
            with self._changed:
                self._never_ahead.add(name)

    def _have_computed(self, batch: list[Queued]) -> None:
        info = self._services[batch[0].service]
        self._begin(info, len(batch))
        try:
            process = self._loaded()
        except (RunBrokeError, RunnerLostError) as error:
            self._settle(batch, Computed(failure=f"service {info.name} cannot be loaded: {error}"))
            return
        try:
            failure = self._loaded_service(process, info)
        except RunnerLostError as error:
            self._drop()
            self._settle(batch, Computed(failure=_named(info, f"while it loads, {error}"), was_lost=True))
        except RunBrokeError:
            self._drop()
            late = _named(info, f"loading takes more than {info.timeout_s:g} s (`timeout_s`)")
            self._settle(batch, Computed(failure=late))
        else:
            if failure:
                self._settle(batch, Computed(failure=_named(info, f"cannot be loaded: {failure}")))
            else:
                self._compute(process, batch)

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
        if info.name in self._has:
            return ""
        began_s = time.monotonic()
        process.write(LoadService(info.name), self._load_s)
        answer = process.read(info.timeout_s)
        if isinstance(answer, Fault):
            return answer.reason
        if not isinstance(answer, ServiceLoaded):
            raise RunnerLostError(f"its process says {type(answer).__name__} where a service loads")
        self._times.services[info.name].loaded(time.monotonic() - began_s)
        with self._changed:
            self._has.add(info.name)
            self._never_ahead.discard(info.name)
        return ""

    def _begin(self, info: ServiceInfo, calls: int) -> float:
        """Note what is done now, a batch of so many calls, or none: a load; return when it began, by the monotonic
        clock."""
        times, began_s = self._times.services[info.name], time.monotonic()
        with self._changed:
            takes_s = 0.0 if self._process is not None else self._times.process_s
            takes_s += 0.0 if info.name in self._has else times.load_s
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
            self._has.clear()
        if process is not None:
            process.end()


def _of(outcome: Outcome, info: ServiceInfo) -> Computed:
    return Computed(outcome.value, _named(info, outcome.failure), is_begun=outcome.begun)


def _named(info: ServiceInfo, failure: str) -> str:
    return f"service {info.name}: {failure}" if failure else ""
