"""Who says where calls are computed: the policies of `policies.workflows`, on what places expect."""

import random
from collections.abc import Sequence
from itertools import count
from typing import Protocol

import numpy as np

from control.simulator.workflows.place_cluster import PlaceCluster
from control.simulator.workflows.simulated_run import OpenCall, OpenRun, SimulatedService
from policies.workflows.call_placement import placed
from policies.workflows.call_request import CallRequest, Place, avail_s, open_batch
from policies.workflows.call_table import CallTable
from policies.workflows.simple_placement import greedy, round_robin

MOST_PREDICTED = 4
"""Calls ahead that are placed together with those that are known."""


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


class Speculative(KnowsCallsAlone):
    """Algorithm 1 on the calls that are known and those that are predicted; what these need is loaded ahead."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311
        self._tables: dict[str, CallTable] = {}

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:
        table = self._tables.setdefault(run.given.app, CallTable())
        names = table.sampled(run.made(), self._chance)[:MOST_PREDICTED]
        found = placed(_request(cluster, calls, [cluster.services[name] for name in names]))
        _put(calls, found.places)
        for service, place in zip(names, found.places[len(calls) :], strict=True):
            cluster.want(place, service)

    def ended(self, run: OpenRun) -> None:
        """Count what was called."""
        self._tables[run.given.app].learn(run.made())


class Greedy(KnowsCallsAlone):
    """Each call where it is done first."""

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:  # noqa: ARG002
        """Place them one after the other."""
        _put(calls, greedy(_request(cluster, calls)).places)


class InTurn(KnowsCallsAlone):
    """Calls on places in turn."""

    def __init__(self) -> None:
        self._turn = count()

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: Sequence[OpenCall]) -> None:  # noqa: ARG002
        """Go on behind the last."""
        first, *_ = (next(self._turn) for _ in calls)
        _put(calls, round_robin(_request(cluster, calls), first).places)


def _request(
    cluster: PlaceCluster, calls: Sequence[OpenCall], predicted: Sequence[SimulatedService] = ()
) -> CallRequest:
    """Return what placement goes by. Of what is predicted, each takes the result before it, and the first those that
    none of the calls takes."""
    number = {call: at for at, call in enumerate(calls)}
    inputs = [tuple(number[taken] for taken in call.inputs if taken in number) for call in calls]
    used = {each for some in inputs for each in some}
    ends = tuple(at for at in range(len(calls)) if at not in used)
    inputs += [(len(calls) + at - 1,) if at else ends for at in range(len(predicted))]
    services = [*(call.service for call in calls), *predicted]
    expected = [place.expected(cluster.now_s) for place in cluster.places]
    times = {service.name: _times(expected, cluster.now_s, service) for service in services}
    avail_s = np.array([times[service.name][0] for service in services])
    for at, call in enumerate(calls):
        for before in (each for each in call.inputs if each not in number):
            np.maximum(avail_s[at], cluster.transfer_s(before.service)[before.place], out=avail_s[at])
    comp_s = np.array([times[service.name][1] for service in services])
    return CallRequest(tuple(inputs), avail_s, comp_s, np.array([cluster.transfer_s(each) for each in services]))


def _times(
    places: Sequence[tuple[Place, float]], now_s: float, service: SimulatedService
) -> tuple[list[float], list[float]]:
    """Return avail(t, d), seconds from now, and comp(t, d) of a call on each place."""
    avail, comp = [], []
    for place, load_from_s in places:
        begins_s = avail_s(place, service.name, load_from_s + service.load_s, service.max_batch)
        batch = open_batch(place, service.name, service.max_batch)
        avail.append(max(0.0, begins_s - now_s))
        comp.append(service.batch_s(1 + (batch.calls if batch else 0)))
    return avail, comp


def _put(calls: Sequence[OpenCall], places: Sequence[int]) -> None:
    for call, place in zip(calls, places, strict=False):
        call.place = place
