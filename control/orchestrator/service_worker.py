"""A worker: a process that holds services of one app, and computes one batch after the other."""

import threading
from collections.abc import Mapping

from control.orchestrator.code_process import WORKER, CodeProcess
from control.orchestrator.failures import RunBrokeError, RunnerLostError
from control.orchestrator.service_queue import Computed, Queued, ServiceQueue
from control.orchestrator.settings import OrchestratorSettings
from control.runs.record import AppVersion
from medley_sdk.flows.messages import Batch, FromWorker, Item, LoadApp, Outcome, ServiceInfo

LOADS = 3
"""Times that a worker whose process dies while it loads is started."""


class ServiceWorker:
    """Its thread hands over a batch when the one before has ended. Threads may add calls at the same time."""

    def __init__(
        self, version: AppVersion, services: Mapping[str, ServiceInfo], settings: OrchestratorSettings, *, network: bool
    ) -> None:
        self._load = LoadApp(version.file, version.source, network=network)
        self._services, self._load_s, self._needs_isolation = services, settings.load_s, settings.needs_isolation
        self._queue = ServiceQueue({name: info.max_batch for name, info in services.items()})
        self._process: CodeProcess | None = None
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=f"services of {version.id[:8]}", daemon=True)
        self._thread.start()

    def compute(self, call: Queued) -> None:
        """`done` of the call is called once, from the worker's thread, unless its run is over before it is computed."""
        with self._changed:
            self._queue.add(call)
            self._changed.notify()

    def close(self) -> None:
        """End the process, whatever it computes."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
            if self._process is not None:
                self._process.kill()
        self._thread.join()

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            if not batch:
                continue
            try:
                process = self._loaded()
            except (RunBrokeError, RunnerLostError) as error:
                self._settle(batch, Computed(failure=f"service {batch[0].service} cannot be loaded: {error}"))
                continue
            self._compute(process, batch)
        self._drop()

    def _next(self) -> list[Queued] | None:
        """Wait for a batch, which is empty where runs ended before their calls; None: it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or len(self._queue) > 0)
            return None if self._is_over else self._queue.batch()

    def _loaded(self) -> CodeProcess:
        for tries in range(LOADS):
            if self._process is not None:
                break
            process = CodeProcess(WORKER, FromWorker)
            with self._changed:
                self._process = process
                if self._is_over:
                    process.kill()
            try:
                process.load(self._load, self._load_s, needs_isolation=self._needs_isolation)
            except RunnerLostError:
                self._drop()
                if tries + 1 == LOADS or self._is_over:
                    raise
            except RunBrokeError:
                self._drop()
                raise
        assert self._process is not None  # noqa: S101 - the last try raises
        return self._process

    def _compute(self, process: CodeProcess, batch: list[Queued]) -> None:
        info = self._services[batch[0].service]
        left, is_handed_over = list(batch), False
        try:
            process.write(Batch(info.name, len(batch)), self._load_s)
            for call in batch:
                process.write(Item(call.call, call.given), self._load_s)
            is_handed_over = True  # before that it computes nothing: it reads all of a batch first
            while left:
                outcome = process.read(info.timeout_s)
                if not isinstance(outcome, Outcome):
                    raise RunnerLostError(f"its process says {type(outcome).__name__} where results are waited for")
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
        if process is not None:
            process.end()


def _of(outcome: Outcome, info: ServiceInfo) -> Computed:
    return Computed(outcome.value, _named(info, outcome.failure), is_begun=outcome.begun)


def _named(info: ServiceInfo, failure: str) -> str:
    return f"service {info.name}: {failure}" if failure else ""


class ServiceWorkers:
    """Workers of the apps whose runs this orchestrator executes: of each, one for services with a network, and one for
    those without. Threads may use it at the same time."""

    def __init__(self, settings: OrchestratorSettings) -> None:
        self._settings = settings
        self._workers: dict[tuple[str, bool], ServiceWorker] = {}
        self._lock = threading.Lock()

    def worker(self, version: AppVersion, services: Mapping[str, ServiceInfo], *, network: bool) -> ServiceWorker:
        with self._lock:
            found = self._workers.get((version.id, network))
            if found is None:
                found = ServiceWorker(version, services, self._settings, network=network)
                self._workers[version.id, network] = found
            return found

    def keep(self, versions: set[str]) -> None:
        """End the workers of apps that no run is of any more."""
        with self._lock:
            gone = [key for key in self._workers if key[0] not in versions]
            ended = [self._workers.pop(key) for key in gone]
        for worker in ended:
            worker.close()

    def close(self) -> None:
        self.keep(set())
