"""Who says where calls are computed: the dispatches of `policies.workflows`, on what places expect."""

import random
from collections.abc import Sequence
from typing import Protocol

from control.simulator.workflows.place_cluster import PlaceCluster
from control.simulator.workflows.simulated_run import OpenCall, OpenRun
from policies.workflows import dispatches
from policies.workflows.call_dispatch import CallDispatch, KnownCall
from policies.workflows.learned_runs import LearnedRuns

ALL_RUNS, ALL_CALLS = 1_000_000, 100_000_000
"""A simulation learns from all of its runs."""


class WorkflowDispatch(Protocol):
    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:
        """Set the place of calls that have become known together; all calls of the run before them are done."""

    def ended(self, run: OpenRun) -> None:
        """Learn from a run that has ended."""

    def tick(self, cluster: PlaceCluster) -> None:
        """Do what is done from time to time, and before the first run."""


class KnowsCallsAlone:
    """A dispatch that learns nothing of runs, and does nothing between calls."""

    def ended(self, run: OpenRun) -> None:
        """Learn nothing."""

    def tick(self, cluster: PlaceCluster) -> None:
        """Do nothing."""


class Dispatched:
    """A dispatch as orchestrators have it."""

    def __init__(self, dispatch: CallDispatch) -> None:
        self._dispatch = dispatch

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:
        """Set the places of calls; what is predicted is loaded ahead."""
        number = {call: at for at, call in enumerate(calls)}
        known = [_known(call, number) for call in calls]
        found = self._dispatch.assigned(run.given.app, run.made(), known, cluster.cell())
        for call, place in zip(calls, found.places, strict=True):
            call.place = place
        for service, place in found.ahead:
            cluster.want(place, service)

    def ended(self, run: OpenRun) -> None:
        """Count what was called."""
        self._dispatch.learn(run.given.app, run.made())

    def tick(self, cluster: PlaceCluster) -> None:
        """Do nothing."""


class Speculative(Dispatched):
    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311
        super().__init__(dispatches.Speculative(chance, LearnedRuns(ALL_RUNS, ALL_CALLS)))


class Greedy(Dispatched):
    def __init__(self) -> None:
        super().__init__(dispatches.Greedy())


class InTurn(Dispatched):
    def __init__(self) -> None:
        super().__init__(dispatches.InTurn())


def _known(call: OpenCall, number: dict[OpenCall, int]) -> KnownCall:
    """`number`: of each call that is placed together with it."""
    inputs = tuple(number[taken] for taken in call.inputs if taken in number)
    held = tuple((taken.service.name, taken.place) for taken in call.inputs if taken not in number)
    return KnownCall(call.service.name, inputs, held)
