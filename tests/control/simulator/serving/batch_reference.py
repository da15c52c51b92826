"""Calls over the legs of their routes at stations of batches, in plain Python and apart from the kernel: slow."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.optimize import linprog

from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.requests import Requests
from policies.routing import ModelRouter
from policies.routing_table import RoutedRoute

_STEP, _INPUT, _ORDER = range(3)
"""What goes first at one time."""


def least_seconds(points: tuple[Mapping[str, float], ...], units: Mapping[str, float]) -> float:
    """In which a mixture of the points makes the units: a linear programme."""
    rates = np.array([[point.get(name, 0.0) for point in points] for name in units])
    found = linprog(np.ones(len(points)), A_ub=-rates, b_ub=-np.array(list(units.values())), method="highs")
    assert found.success, found.message
    return float(found.fun)


def batch_seconds(model: BatchModel, units: Mapping[str, float]) -> float:
    work_s = least_seconds(model.points, units) * model.lanes
    slope = 1 - model.start_s / model.batch_s if model.batch_s else 1
    return max(work_s, model.start_s + slope * work_s)


@dataclass(eq=False)
class ReferenceCall:
    number: int
    route: RoutedRoute
    stations: "list[_Station]"
    missing: list[int]
    order: list[int]
    """Of each leg among those that its station took."""
    open: int
    handed_s: float = float("nan")
    finish_s: float = float("nan")


@dataclass(eq=False)
class _Station:
    number: int
    model: BatchModel
    first_lane: int
    taken: int = 0
    is_due: bool = False
    out_s: float = 0.0
    in_s: float = 0.0
    waiting: list[tuple[int, ReferenceCall, int]] = field(default_factory=list)
    lanes: list[bool] = field(default_factory=list)


class ReferenceSimulation:
    def __init__(self, requests: Requests, fleet: FleetTimeline) -> None:
        """All instances are there from the start on; nothing is refused, and nothing lost."""
        self._requests = requests
        self.stations: dict[str, _Station] = {}
        lane = 0
        for number, life in enumerate(fleet.instances):
            assert isinstance(life.station, BatchModel)
            self.stations[life.id] = _Station(number, life.station, lane, lanes=[False] * life.station.lanes)
            lane += life.station.lanes
        ((_, models),) = fleet.tables
        self._routers = [ModelRouter(next(m for m in models if m.id == app)) for app in requests.apps]
        self._events: list[tuple[float, int, int, int, Callable[[float], None]]] = []
        self._pushed = 0
        self.calls: list[ReferenceCall] = []

    def run(self, length_s: float) -> list[ReferenceCall]:
        for number, arrival_s in enumerate(self._requests.arrival_s.tolist()):
            self._until(arrival_s)
            self._arrive(number, arrival_s)
        self._until(length_s)
        return self.calls

    def _until(self, end_s: float) -> None:
        while self._events and self._events[0][0] < end_s:
            now_s, *_, happen = heapq.heappop(self._events)
            happen(now_s)

    def _push(self, at_s: float, priority: int, subject: int, happen: Callable[[float], None]) -> None:
        self._pushed += 1
        heapq.heappush(self._events, (at_s, priority, subject, self._pushed, happen))

    def _arrive(self, number: int, now_s: float) -> None:
        chosen = self._routers[self._requests.app[number]].choose(frozenset())
        assert chosen is not None
        stations = [self.stations[member.id] for member in chosen.members]
        missing = [sum(edge.target == leg for edge in chosen.route.edges) for leg in range(len(stations))]
        order = []
        for station in stations:
            station.taken += 1
            order.append(station.taken)
        call = ReferenceCall(number, chosen.route, stations, missing, order, len(stations))
        self.calls.append(call)
        for leg, station in enumerate(stations):
            if not missing[leg]:
                station.waiting.append((order[leg], call, leg))
            self._wake(station, now_s)

    def _wake(self, station: _Station, now_s: float) -> None:
        if not station.is_due:
            station.is_due = True
            self._push(now_s, _ORDER, station.number, partial(self._order, station))

    def _order(self, station: _Station, now_s: float) -> None:
        station.is_due = False
        station.waiting.sort(key=lambda entry: entry[0])
        for lane, is_busy in enumerate(station.lanes):
            if is_busy or not station.waiting:
                continue
            batch: list[tuple[int, ReferenceCall, int]] = []
            units: dict[str, float] = {}
            while station.waiting:
                leg = station.waiting[0][1].route.legs[station.waiting[0][2]]
                more = units | {leg.work_class: units.get(leg.work_class, 0.0) + leg.units_per_request}
                if batch and least_seconds(station.model.points, more) * station.model.lanes > station.model.batch_s:
                    break
                batch.append(station.waiting.pop(0))
                units = more
            station.lanes[lane] = True
            end_s = now_s + batch_seconds(station.model, units)
            self._push(end_s, _STEP, station.first_lane + lane, partial(self._end, station, lane, batch))

    def _end(self, station: _Station, lane: int, batch: list[tuple[int, ReferenceCall, int]], now_s: float) -> None:
        station.lanes[lane] = False
        self._wake(station, now_s)
        for _, call, leg in batch:
            call.open -= 1
            if not call.open:
                call.finish_s = now_s
            for edge in call.route.edges:
                if edge.source == leg:
                    to = call.stations[edge.target]
                    end_s = now_s
                    if to is not station and edge.bytes_per_request:
                        start_s = max(now_s, station.out_s)
                        station.out_s = start_s + edge.bytes_per_request / station.model.bytes_per_s
                        to.in_s = max(start_s, to.in_s) + edge.bytes_per_request / to.model.bytes_per_s
                        end_s = max(station.out_s, to.in_s)
                    self._push(end_s, _INPUT, call.number, partial(self._take, call, edge.target))

    def _take(self, call: ReferenceCall, leg: int, now_s: float) -> None:
        call.handed_s = now_s
        call.missing[leg] -= 1
        if not call.missing[leg]:
            station = call.stations[leg]
            station.waiting.append((call.order[leg], call, leg))
            self._wake(station, now_s)
