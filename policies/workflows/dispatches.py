"""The ways to dispatch calls of runs, by their names."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from policies.workflows.call_dispatch import Assignment, CallDispatch, Cell, DispatchName, KnownCall
from policies.workflows.call_placement import CallPlacement, compile_placement, placed
from policies.workflows.call_request import CallRequest, Floats
from policies.workflows.learned_runs import LearnedRuns
from policies.workflows.shared_place import TimedService, avail_s, open_batch
from policies.workflows.simple_placement import greedy, round_robin

MOST_PREDICTED = 4
"""Calls ahead that are placed together with those that are known."""


class Speculative:
    """Algorithm 1 on the calls that are known and those that are predicted; what these need is loaded ahead. Of a
    workflow of which nothing is known, calls are placed as `Greedy` does."""

    def __init__(self, chance: random.Random, learned: LearnedRuns) -> None:
        self._chance, self._learned = chance, learned

    def assigned(self, app: str, made: Sequence[str], calls: Sequence[KnownCall], cell: Cell) -> Assignment:
        """Draw what follows from the table of the workflow. A prediction is used once: whenever a run makes calls, what
        is ahead of it is drawn and placed again, whether the last prediction was right or wrong."""
        if not self._learned.knows(app):
            return _alone(calls, cell)
        drawn = self._learned.table(app).sampled(made, self._chance)
        names = [name for name in drawn if name in cell.services][:MOST_PREDICTED]
        if not calls and not names:
            return Assignment(())
        places = _places(placed, calls, cell, names)
        return Assignment(places[: len(calls)], tuple(zip(names, places[len(calls) :], strict=True)))

    def knows(self, app: str) -> bool:
        """Tell whether it has learned from a run of the workflow."""
        return self._learned.knows(app)

    def learn(self, app: str, made: Sequence[str]) -> None:
        """Count what was called."""
        self._learned.learn(app, made)


class KnowsCallsAlone:
    """A dispatch that learns nothing."""

    def knows(self, app: str) -> bool:  # noqa: ARG002
        """Need nothing."""
        return True

    def learn(self, app: str, made: Sequence[str]) -> None:
        """Learn nothing."""


class Greedy(KnowsCallsAlone):
    """Each call where it is done first."""

    def assigned(self, app: str, made: Sequence[str], calls: Sequence[KnownCall], cell: Cell) -> Assignment:  # noqa: ARG002
        """Place them one after the other."""
        return _alone(calls, cell)


class InTurn(KnowsCallsAlone):
    """Calls on places in turn."""

    def __init__(self) -> None:
        self._turns: Counter[tuple[int, ...]] = Counter()

    def assigned(self, app: str, made: Sequence[str], calls: Sequence[KnownCall], cell: Cell) -> Assignment:  # noqa: ARG002
        """Go on behind the last."""
        if not calls:
            return Assignment(())
        return Assignment(round_robin(_request(cell, calls), self._turns).places)


def _speculative() -> CallDispatch:
    compile_placement()  # no run waits for it
    return Speculative(random.Random(), LearnedRuns())  # noqa: S311


DISPATCHES: Mapping[DispatchName, Callable[[], CallDispatch]] = {
    DispatchName.SPECULATIVE: _speculative,
    DispatchName.GREEDY: Greedy,
    DispatchName.ROUND_ROBIN: InTurn,
}
"""Those of orchestrators."""


def _alone(calls: Sequence[KnownCall], cell: Cell) -> Assignment:
    return Assignment(_places(greedy, calls, cell) if calls else ())


def _places(
    placement: Callable[[CallRequest], CallPlacement],
    calls: Sequence[KnownCall],
    cell: Cell,
    predicted: Sequence[str] = (),
) -> tuple[int, ...]:
    """Return the place of each call, and of what is predicted behind them."""
    request = _request(cell, calls, predicted)
    if cell.loads_beside:
        return placement(request).places
    request, at = _with_loads(request, [*(call.service for call in calls), *predicted], cell)
    found = placement(request).places
    return tuple(found[each] for each in at)


def _request(cell: Cell, calls: Sequence[KnownCall], predicted: Sequence[str] = ()) -> CallRequest:
    """Return what placement goes by, without the loads of places that load between batches. Of what is predicted, each
    takes the result before it, and the first those that none of the calls takes."""
    used = {each for call in calls for each in call.inputs}
    ends = tuple(at for at in range(len(calls)) if at not in used)
    inputs = [call.inputs for call in calls]
    inputs += [(len(calls) + at - 1,) if at else ends for at in range(len(predicted))]
    services = [cell.services[name] for name in (*(call.service for call in calls), *predicted)]
    times = {service.name: _times(cell, service) for service in services}
    begins_s = np.array([times[service.name][0] for service in services])
    for at, call in enumerate(calls):
        for service, place in call.held:
            np.maximum(begins_s[at], cell.transfer_s(service)[place], out=begins_s[at])
    takes_s = np.array([times[service.name][1] for service in services])
    moves_s = np.array([cell.transfer_s(service.name) for service in services])
    return CallRequest(tuple(inputs), begins_s, takes_s, moves_s)


def _times(cell: Cell, service: TimedService) -> tuple[list[float], list[float]]:
    """Return avail(t, d), seconds from now, and comp(t, d) of a call on each place, without the loads of places that
    load between batches."""
    avail, comp = [], []
    for expected in cell.places:
        place = expected.place
        loaded_s = expected.load_from_s + (service.load_s if cell.loads_beside else 0.0)
        begins_s = avail_s(place, service.name, loaded_s, service.max_batch)
        batch = open_batch(place, service.name, service.max_batch)
        is_there = expected.services is None or service.name in expected.services
        avail.append(max(0.0, begins_s - cell.now_s) if is_there else np.inf)
        comp.append(service.batch_s(1 + (batch.calls if batch else 0)))
    return avail, comp


def _with_loads(request: CallRequest, services: Sequence[str], cell: Cell) -> tuple[CallRequest, list[int]]:
    """Add what loading takes on places that do it between batches, and return the number of each call now. `services`:
    of each call.

    The load for a call that waits for others is a call of its own, which takes nothing, holds its place, and whose
    result goes nowhere else: so it may be done on a free place meanwhile. A call that can begin at once is as much
    longer; so is the second of a service, as it may be elsewhere than the first."""
    apart = np.where(np.eye(request.places, dtype=np.bool_), 0.0, np.inf)
    at: list[int] = []
    inputs: list[tuple[int, ...]] = []
    begins_s: list[Floats] = []
    takes_s: list[Floats] = []
    moves_s: list[Floats] = []
    seen: set[str] = set()
    for call, service in enumerate(services):
        takes = tuple(at[taken] for taken in request.inputs[call])
        loads_s = _loads_s(cell, cell.services[service])
        computes_s = request.comp_s[call]
        if takes and service not in seen and loads_s.any():
            takes = (*takes, len(inputs))
            inputs.append(())
            begins_s.append(request.avail_s[call])
            takes_s.append(loads_s)
            moves_s.append(apart)
        else:
            computes_s = computes_s + loads_s
        seen.add(service)
        at.append(len(inputs))
        inputs.append(takes)
        begins_s.append(request.avail_s[call])
        takes_s.append(computes_s)
        moves_s.append(request.comm_s[call])
    return CallRequest(tuple(inputs), np.array(begins_s), np.array(takes_s), np.array(moves_s)), at


def _loads_s(cell: Cell, service: TimedService) -> Floats:
    """(places,) what a call of a service has to wait for its load; 0 where it is loaded, or will be without it."""
    return np.array([
        0.0 if service.name in (expected.place.loaded_s or {}) else service.load_s for expected in cell.places
    ])  # fmt: skip
