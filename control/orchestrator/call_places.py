"""Where calls of services are computed: a dispatch of `policies.workflows` is asked, with what workers have before
them, and what it predicts is loaded ahead."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from control.db.errors import DatabaseError
from control.orchestrator.service_workers import AppWorkers
from medley_sdk.flows.messages import CallKind, FlowCall
from policies.workflows.call_dispatch import CallDispatch, Cell, KnownCall
from policies.workflows.call_table import MOST_CALLS

MOST_TOGETHER = 16
"""Calls of a run that are placed together: what a search takes grows with them."""
_MOST_LOOKED_AT = 128
"""Calls that wait for others, of which those are taken that can be placed."""
MOST_READ = 50
"""Runs of a workflow that are read from the journal when nothing is known of it."""
_MOST_NAME = 100
"""Letters of a name of what is called, which code may make as long as it likes, and catch what comes of it."""

_log = logging.getLogger(__name__)
Made = Callable[[str, str, int, int], list[list[FlowCall]]]
"""Project, workflow and two numbers → the first calls of models and services, so many of each, of so many of its runs
that are done, those that ended last."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run whose calls have places chosen."""

    run: str
    """Its id."""
    project: str
    workflow: str
    app: AppWorkers

    @property
    def name(self) -> str:
        """Of what it is learned and predicted by."""
        return f"{self.project}/{self.workflow}"


def name_of(call: FlowCall) -> str | None:
    """Return the name by which a call is learned and predicted; None: it is not. No service has a blank in its name."""
    if call.kind is CallKind.MODEL:
        return f"model {call.target[:_MOST_NAME]}"
    return call.target[:_MOST_NAME] if call.kind is CallKind.SERVICE else None


class CallPlaces:
    """What all runs of an orchestrator share. Threads may use it at the same time."""

    def __init__(self, dispatch: CallDispatch | None, made: Made) -> None:
        """`dispatch`: None where each service has one place, and nothing is predicted."""
        self._dispatch, self._made = dispatch, made
        self._lock = threading.Lock()

    @property
    def are_chosen(self) -> bool:
        return self._dispatch is not None

    def planned(
        self, who: PlannedRun, made: Sequence[str], ready: Sequence[FlowCall], later: Sequence[FlowCall]
    ) -> Mapping[str, int]:
        """Return the places of calls, by their paths: of all that can be started now (`ready`, `MOST_TOGETHER` at the
        most), and of those that wait for them and for each other (`later`), as far as there is room. What was planned
        for the run before, and is not in a queue yet, is forgotten with what was predicted for it. `made`: the names of
        all that the run has called."""
        if self._dispatch is None:
            return {}
        calls, known = _known(ready, later)
        with self._lock:
            places = [worker.expected(who.run) for worker in who.app.workers]
            nowhere = [[0.0] * len(places) for _ in places]  # results go through the orchestrator, wherever they are
            cell = Cell(0.0, who.app.times.services, places, lambda _: nowhere, loads_beside=False)
            found = self._dispatch.assigned(who.name, made[-MOST_CALLS:], known, cell)
            for place, worker in enumerate(who.app.workers):
                promised = [call.target for call, at in zip(calls, found.places, strict=True) if at == place]
                ahead = [service for service, at in found.ahead if at == place]
                worker.expect(who.run, promised, ahead)
        return {call.path: place for call, place in zip(calls, found.places, strict=True)}

    def over(self, who: PlannedRun) -> None:
        """Nothing is to be expected of a run any more."""
        if self._dispatch is not None:
            with self._lock:
                for worker in who.app.workers:
                    worker.expect(who.run, (), ())

    def learn(self, who: PlannedRun, made: Sequence[str]) -> None:
        """Learn from a run that is done."""
        if self._dispatch is not None:
            with self._lock:
                self._dispatch.learn(who.name, made)

    def read(self, who: PlannedRun) -> None:
        """Learn from the journal what runs of a workflow have called, where nothing is known of it. Without a database
        the next run does."""
        if self._dispatch is None or self._knows(who):
            return
        try:
            runs = self._made(who.project, who.workflow, MOST_READ, MOST_CALLS)
        except DatabaseError as error:
            _log.warning("what runs of %s call is not known: %s", who.workflow, error)
            return
        names = [[name for call in calls if (name := name_of(call)) is not None] for calls in runs]
        with self._lock:
            if not self._dispatch.knows(who.name):  # nobody else has read it meanwhile
                for each in names:
                    self._dispatch.learn(who.name, each)

    def _knows(self, who: PlannedRun) -> bool:
        with self._lock:
            return self._dispatch is None or self._dispatch.knows(who.name)


def _known(ready: Sequence[FlowCall], later: Sequence[FlowCall]) -> tuple[list[FlowCall], list[KnownCall]]:
    """Return the calls that are placed together, each behind those that it takes; and the same as the dispatch knows
    them. What is taken of other calls is there, or on its way."""
    calls = list(ready)
    waiting = {call.path: call for call in later[:_MOST_LOOKED_AT]}
    while len(calls) < MOST_TOGETHER:
        following = next((call for call in waiting.values() if not waiting.keys() & set(call.takes)), None)
        if following is None:
            break
        calls.append(waiting.pop(following.path))
    number = {call.path: at for at, call in enumerate(calls)}
    inputs = [tuple(dict.fromkeys(number[path] for path in call.takes if path in number)) for call in calls]
    return calls, [KnownCall(call.target, taken) for call, taken in zip(calls, inputs, strict=True)]
