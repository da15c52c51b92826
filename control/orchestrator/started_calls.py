"""Has the calls of one run done: those of models at the gateway, those of services in a worker."""

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from control.orchestrator.call_places import CallPlaces, PlannedRun, name_of
from control.orchestrator.model_calls import ModelCalls
from control.orchestrator.service_queue import Computed, Queued
from control.orchestrator.service_workers import ServiceWorkers
from control.orchestrator.waiting_threads import WaitingThreads
from control.runs.record import AppVersion, CallRecord, RunRecord
from medley_sdk.flows.messages import CallKind, Effects, Failure, FlowCall, ServiceInfo
from templates_lib.values.nearest_name import nearest_name

TRIES = 3
"""Times that a call is started whose worker dies, where it may be started again."""
_MODEL_S = 600.0


@dataclass(frozen=True, slots=True)
class CallEnded:
    path: str
    value: bytes = b""
    failure: Failure | None = None
    usd: float = 0.0
    again: bool = False
    """Its worker was lost, and it may be started again."""
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Tools:
    """What all runs of an orchestrator share."""

    models: ModelCalls | None
    workers: ServiceWorkers
    places: CallPlaces
    threads: WaitingThreads
    clock: Callable[[], datetime]


class StartedCalls:
    """Of one run, and used by its driver alone."""

    def __init__(self, tools: Tools, run: RunRecord, version: AppVersion) -> None:
        self._tools, self.clock = tools, tools.clock
        self._run, self._version = run, version
        self._services: dict[str, ServiceInfo] = {}
        """Of the run's app."""
        self._planned: PlannedRun | None = None
        """None: the code of the run was not loaded yet."""
        self._names: list[str] = []
        """Of all calls that were made, by which they are learned and predicted."""
        self._has_new = False
        """Calls were made since places were chosen last."""
        self._places: dict[str, int] = {}
        """Call of a service → its place."""
        self._reserved: dict[str, float] = {}
        """Call → dollars that it may cost, of those whose cost the run does not count yet."""
        self._is_over = False

    def over(self) -> None:
        """The run has ended, or another orchestrator has it: what is not computed yet is not to be. Any thread may see
        it a moment late."""
        self._is_over = True
        if self._planned is not None:
            self._tools.places.over(self._planned)

    def loaded(self, services: Iterable[ServiceInfo]) -> None:
        """The code of the run is loaded, for the first time or again, and has these services."""
        self._services = {each.name: each for each in services}
        app = self._tools.workers.app(self._version, self._services)
        if self._planned is None:
            self._planned = PlannedRun(self._run.id, self._run.project, self._run.workflow, app)
            self._tools.places.read(self._planned)

    def made(self, calls: Iterable[FlowCall]) -> None:
        """Note what the run calls, in the order in which the journal has it: what follows is predicted by it, and it is
        learned from once the run is done."""
        names = [name for call in calls if (name := name_of(call)) is not None]
        self._names += names
        self._has_new |= bool(names)

    def learn(self) -> None:
        """The run is done."""
        if self._planned is not None:
            self._tools.places.learn(self._planned, self._names)

    def place(self, ready: Sequence[FlowCall], waiting: Callable[[], Sequence[FlowCall]]) -> None:
        """Have places chosen where the run has made calls since they were chosen last, or one of those has none that
        are started now. `ready`: these; `waiting`: gives the calls of services that were made and not started."""
        if self._planned is None or not self._tools.places.are_chosen:
            return
        known = self._planned.app.times.services
        ready = [call for call in ready if call.kind is CallKind.SERVICE and call.target in known]
        if not self._has_new and all(call.path in self._places for call in ready):
            return
        self._has_new = False
        now = {call.path for call in ready}
        later = [call for call in waiting() if call.path not in now and call.target in known]
        self._places |= self._tools.places.planned(self._planned, self._names, ready, later)

    def counted(self, path: str) -> None:
        """What a call has cost is among what the run has spent, from now on."""
        self._reserved.pop(path, None)

    def start(
        self, record: CallRecord, given: bytes, spent_usd: float, events: "queue.SimpleQueue[Any]", tries: int = 1
    ) -> Failure | None:
        """Start a call; `events` gets its CallEnded. Returns why it is not started, where it cannot be."""
        if record.call.kind is CallKind.MODEL:
            return self._ask_model(record, given, spent_usd, events)
        return self._ask_service(record, given, events, tries)

    def _ask_model(
        self, record: CallRecord, given: bytes, spent_usd: float, events: "queue.SimpleQueue[Any]"
    ) -> Failure | None:
        models, run, call = self._tools.models, self._run, record.call
        if models is None:
            return Failure("call", f"model {call.target}: this orchestrator knows no gateway; start it with --gateway")
        if run.max_usd is not None:
            most = models.most_usd(call.target, given, run.project)
            if most is None:
                why = f"model {call.target}: what it costs is not known, and max_usd of the run is {run.max_usd:g}"
                return Failure("budget", why)
            left = run.max_usd - spent_usd - sum(self._reserved.values())
            if most > left:
                why = f"costs up to {most:.6f} $, and {max(left, 0.0):.6f} $ of max_usd {run.max_usd:g} are left"
                return Failure("budget", f"model {call.target}: {why}")
            self._reserved[call.path] = most
        until_s = time.monotonic() + (call.timeout_s or _MODEL_S)
        headers = {"x-request-id": f"{run.id}/{call.path}"}

        def ask() -> None:
            try:
                answered = models.call(call.target, given, run.project, headers, until_s, lambda: self._is_over)
            except Exception as error:  # whatever it is, the run must not wait for ever
                events.put(CallEnded(call.path, failure=Failure("call", f"model {call.target}: {error}")))
                return
            events.put(CallEnded(call.path, answered.value, answered.failure, answered.usd))

        self._tools.threads.submit(ask)
        return None

    def _ask_service(
        self, record: CallRecord, given: bytes, events: "queue.SimpleQueue[Any]", tries: int
    ) -> Failure | None:
        call = record.call
        app = self._tools.workers.app(self._version, self._services)
        info = app.services.get(call.target)  # code may have others now than when it was loaded for an earlier run
        if info is None:
            known = nearest_name(call.target, app.services)
            return Failure("call", f"service {call.target}: is not at the top level of {self._version.file}; {known}")
        may_again = call.idempotent or call.effects is Effects.NONE

        def done(computed: Computed) -> None:
            events.put(_ended(call.path, computed, may_again=may_again, tries=tries))

        place = self._places.get(call.path)
        worker = app.workers[app.first(info) if place is None else place]
        queued = Queued(f"{self._run.id}/{call.path}", info.name, given, done, lambda: self._is_over)
        worker.compute(queued, self._run.id)
        return None


def _ended(path: str, computed: Computed, *, may_again: bool, tries: int) -> CallEnded:
    if not computed.failure:
        return CallEnded(path, computed.value)
    if computed.is_begun and not may_again:
        return CallEnded(
            path, failure=Failure("uncertain", f"{computed.failure}; nobody knows what became of the call")
        )
    again = computed.was_lost and tries < TRIES
    return CallEnded(path, failure=Failure("call", computed.failure), again=again, tries=tries)
