"""Runs of workflows on a simulated clock.

asked ─▶ calls that are known: places chosen ─▶ inputs brought, service loaded ─▶ batch ─▶ all done: more calls, or
the end
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from control.simulator.workflows.place_cluster import PlaceCluster
from control.simulator.workflows.simulated_run import OpenCall, OpenRun, SimulatedRun, SimulatedService
from control.simulator.workflows.workflow_dispatch import WorkflowDispatch

TICK_S = 10.0


class WorkflowSimulation:
    def __init__(self, cluster: PlaceCluster, dispatch: WorkflowDispatch) -> None:
        self._cluster = cluster
        self._dispatch = dispatch
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._takers: dict[OpenCall, list[OpenCall]] = {}
        """Call that is not done → calls that wait for its result."""
        self._open = 0
        self.batches: list[tuple[str, int]] = []
        """Service and calls of each batch."""
        # Once all that is decided now is in the queues: what they need is loaded before what is predicted.
        cluster.load_soon = lambda place: self._at(cluster.now_s, partial(self._load, place))

    def run(self, runs: Iterable[SimulatedRun]) -> list[OpenRun]:
        """Execute runs until all have ended. Raises RuntimeError where nothing is left to happen before."""
        opened = [OpenRun(each) for each in runs]
        for each in opened:
            self._at(each.given.asked_s, partial(self._go_on, each))
        self._open = len(opened)
        self._tick()
        while self._events and self._open:
            self._cluster.now_s, _, event = heapq.heappop(self._events)
            event()
        return opened

    def _at(self, when_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), event))

    def _tick(self) -> None:
        self._dispatch.tick(self._cluster)
        if self._open and not self._events:
            raise RuntimeError(f"{self._open} runs wait for calls that no place can begin")
        self._at(self._cluster.now_s + TICK_S, self._tick)

    def _go_on(self, run: OpenRun) -> None:
        """Make the next calls of a run, or end it."""
        if run.waves == len(run.given.waves):
            run.ended_s = self._cluster.now_s
            self._open -= 1
            self._dispatch.ended(run)
            return
        wave = run.given.waves[run.waves]
        run.waves += 1
        for each in wave:
            inputs = [run.calls[number] for number in each.inputs]
            run.calls.append(OpenCall(self._cluster.services[each.service], inputs, run))
        calls = run.calls[len(run.calls) - len(wave) :]
        self._dispatch.assign(self._cluster, run, calls)
        for call in calls:
            self._enqueue(call)

    def _enqueue(self, call: OpenCall) -> None:
        self._cluster.places[call.place].queue.append(call)
        self._cluster.want(call.place, call.service.name)
        for taken in call.inputs:
            if taken.done_s > self._cluster.now_s:
                self._takers.setdefault(taken, []).append(call)
        self._bring(call)

    def _bring(self, call: OpenCall) -> None:
        """Bring the inputs of a call to its place, once all are there to be brought."""
        if any(taken.done_s > self._cluster.now_s for taken in call.inputs):
            return
        now_s = self._cluster.now_s
        took_s = [float(self._cluster.transfer_s(taken.service)[taken.place, call.place]) for taken in call.inputs]
        self._at(now_s + max(took_s, default=0.0), partial(self._ready, call))

    def _ready(self, call: OpenCall) -> None:
        call.is_ready = True
        self._load(call.place)
        self._begin(call.place)

    def _load(self, place: int) -> None:
        service = self._cluster.places[place].load(self._cluster.now_s)
        if service is not None:
            self._at(self._cluster.now_s + service.load_s, partial(self._loaded, place, service))

    def _loaded(self, place: int, service: SimulatedService) -> None:
        self._cluster.places[place].loaded(service, self._cluster.now_s)
        self._begin(place)
        self._load(place)

    def _begin(self, place: int) -> None:
        took_s = self._cluster.places[place].begin(self._cluster.now_s)
        if took_s is not None:
            self._at(self._cluster.now_s + took_s, partial(self._end, place))

    def _end(self, place: int) -> None:
        batch = self._cluster.places[place].end()
        self.batches.append((batch[0].service.name, len(batch)))
        for call in batch:
            call.done_s = self._cluster.now_s
        for taker in dict.fromkeys(taker for call in batch for taker in self._takers.pop(call, ())):
            self._bring(taker)
        for run in dict.fromkeys(call.run for call in batch):
            if all(each.done_s <= self._cluster.now_s for each in run.calls):
                self._go_on(run)
        self._load(place)
        self._begin(place)
