"""Flows of demand over the edges of its routes, and the load that each puts on every work class.

A place is a zone; in mode `paper` there is one place, nowhere, and nothing is charged for moving.

A route is a tree of stops. A stop is one leg, or legs that have to share a place: those on a cycle, and those between
a split and the join of its branches. What flows between two stops, by pair of places, says all about a tree: such
flows are mixtures of whole placements if what comes to a stop in a place leaves from there towards every stop that
follows. So there are legs · places² variables, not places to the power of legs.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Floats, Ints
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand, Route

NOWHERE = ""
SECONDS_PER_HOUR = 3600.0
BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Hop:
    """The flow of one route of one demand from a stop in a place to the next in one; 1 is the whole demand."""

    demand: int
    enters: bool
    """True where requests begin with the hop: such hops of a demand carry all of it that is served."""
    places: tuple[int, int]
    usd_per_hour: float
    """Traffic when the whole demand takes this hop."""
    load: tuple[tuple[int, int, float], ...]
    """(class, place, share of the class's peak load) of every leg that it goes to, or begins with."""


@dataclass(frozen=True, slots=True, eq=False)
class RouteTree:
    """One route of one demand as stops, the one with the first leg first, and edges, each from a stop before it.

    Edge e goes to stop e + 1. A route of one stop has an edge to an empty stop in the same place.
    """

    demand: int
    route: Route
    stops: tuple[tuple[int, ...], ...]
    """Legs of each."""
    sources: tuple[int, ...]
    """The stop that each edge comes from."""
    load: tuple[tuple[int, float], ...]
    """(class, share of its peak load) of every leg that has work, in order."""
    hops: tuple[Ints, ...]
    """Arrays by edge, (places, places): index of the hop between two places, -1 for none."""

    def local(self, place: int) -> tuple[int, ...]:
        """The hops of requests that stay in a place; empty where they cannot."""
        found = tuple(int(hops[place, place]) for hops in self.hops)
        return found if min(found) >= 0 else ()

    def by_edge(self, value: Floats) -> list[Floats]:
        """(places, places) the value of every hop, +∞ where there is none."""
        return [np.where(hops >= 0, value[hops], np.inf) for hops in self.hops]

    def least(self, cost: list[Floats]) -> Floats:
        """(places,) the least cost of a whole placement by the place of the first stop, given that of hops by edge."""
        onward = [np.zeros(len(self.hops[0])) for _ in self.stops]
        for edge in reversed(range(len(self.sources))):
            onward[self.sources[edge]] += (cost[edge] + onward[edge + 1]).min(axis=1)
        return np.asarray(onward[0])

    def least_crossing(self, cost: list[Floats]) -> Floats:
        """The same where some edge leaves its place."""
        away = np.where(np.eye(len(cost[0])) > 0, np.inf, 0.0)
        several = [self.least([*cost[:e], cost[e] + away, *cost[e + 1 :]]) for e in range(len(cost))]
        return np.asarray(np.min(several, axis=0))

    def balances(self) -> Iterator[tuple[list[int], list[int]]]:
        """(hops that come to a stop in a place, hops that leave it by one edge), which carry the same."""
        for edge, source in enumerate(self.sources[1:], start=1):
            coming = self.hops[0] if source == 0 else self.hops[source - 1].T
            for come, leave in zip(coming, self.hops[edge], strict=True):
                yield come[come >= 0].tolist(), leave[leave >= 0].tolist()

    def placements(self, share: Floats, least: float) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
        """The shares of hops as whole placements (place of each leg, hop of each edge, share), in order.

        There are no more of them than hops in use. Shares up to `least` are rounding, and count as none.
        """
        left = [np.where((hops >= 0) & (share[hops] > least), share[hops], 0.0) for hops in self.hops]
        found: list[tuple[tuple[int, ...], tuple[int, ...], float]] = []
        while left[0].any():
            # Flows that go along with the largest leave the fewest others behind.
            places = [int(left[0].max(axis=1).argmax())]
            taken: list[tuple[int, int]] = []
            for source, flow in zip(self.sources, left, strict=True):
                if not flow[places[source]].any():  # what came here is rounding
                    come = max(source - 1, 0)
                    left[come][taken[come]] = 0.0
                    break
                places.append(int(flow[places[source]].argmax()))
                taken.append((places[source], places[-1]))
            else:
                most = min(float(flow[at]) for flow, at in zip(left, taken, strict=True))
                for flow, at in zip(left, taken, strict=True):
                    flow[at] = flow[at] - most if flow[at] - most > least else 0.0
                of_leg = {leg: place for stop, place in zip(self.stops, places, strict=True) for leg in stop}
                hops = tuple(int(hops[at]) for hops, at in zip(self.hops, taken, strict=True))
                found.append((tuple(of_leg[leg] for leg in sorted(of_leg)), hops, most))
        return sorted(found)


@dataclass(frozen=True, slots=True, eq=False)
class RoutedDemands:
    """D demands over K demanded work classes and their routes."""

    demands: tuple[Demand, ...]
    classes: tuple[int, ...]
    """Index in the library of each demanded class."""
    peak: NDArray[np.float64]
    """(K,) units per second if every demand took the route that loads the class most."""
    demand_load: NDArray[np.float64]
    """(D, K) what each demand adds to that, as a share of it."""
    places: tuple[str, ...]
    trees: tuple[RouteTree, ...]
    """The routes that some choice of places allows, by demand."""
    hops: tuple[Hop, ...]


def read_routing(
    snapshot: Snapshot,
    class_ids: tuple[str, ...],
    zones: tuple[str, ...],
    class_zone: NDArray[np.bool_],
    also: frozenset[int],
) -> RoutedDemands:
    """The demands above zero and their hops between places where every leg's class can be had at all.

    `class_zone` (library classes, zones) says where some template of the class fits what is sold. Classes in `also`
    are listed even when nothing demands them.
    """
    paper = snapshot.settings.mode is Mode.PAPER
    places = (NOWHERE,) if paper else zones
    class_place: NDArray[np.bool_] = np.asarray(class_zone.any(axis=1, keepdims=True) if paper else class_zone)
    prices = {(t.source, t.target): t.usd_per_gb for t in snapshot.traffic}
    table = [0.0 if a == b else prices.get((a, b), np.inf) for a in places for b in places]
    per_gb = np.array(table, dtype=np.float64).reshape(len(places), len(places))
    demands = tuple(d for d in snapshot.demand if d.requests_per_s > 0)
    index = {name: i for i, name in enumerate(class_ids)}
    usable = [
        [r for r in routes_of(d, snapshot.routes) if all(leg.work_class in index for leg in r.legs)] for d in demands
    ]
    classes = tuple(sorted({index[leg.work_class] for routes in usable for r in routes for leg in r.legs} | also))
    class_of = {class_ids[k]: i for i, k in enumerate(classes)}
    load = np.zeros((len(demands), len(classes)))
    for d, routes in enumerate(usable):
        for route in routes:
            load[d] = np.maximum(load[d], demands[d].requests_per_s * _units(route, class_of))
    peak = load.sum(axis=0)
    trees: list[RouteTree] = []
    hops: list[Hop] = []
    for d, routes in enumerate(usable):
        for route in routes:
            rate = demands[d].requests_per_s
            allowed = np.array([class_place[index[leg.work_class]] for leg in route.legs])
            of_leg = [class_of[leg.work_class] for leg in route.legs]
            units = [leg.units_per_request for leg in route.legs]
            shares = [(k, rate * u / peak[k]) if u > 0 else (k, 0.0) for k, u in zip(of_leg, units, strict=True)]
            trees.extend(_trees(d, rate, route, allowed, per_gb, shares, hops))
    demand_load = load / np.where(peak > 0, peak, 1.0)
    return RoutedDemands(demands, classes, peak, demand_load, places, tuple(trees), tuple(hops))


def routes_of(demand: Demand, routes: tuple[Route, ...]) -> list[Route]:
    return [r for r in routes if (r.app, r.request_type) == (demand.app, demand.request_type)]


def _units(route: Route, class_of: dict[str, int]) -> NDArray[np.float64]:
    units = np.zeros(len(class_of))
    for leg in route.legs:
        units[class_of[leg.work_class]] += leg.units_per_request
    return units


def _stops(route: Route) -> tuple[list[list[int]], list[int]]:
    """Legs of each stop, and the stop that each but the first is reached from."""
    pairs = {(edge.source, edge.target) for edge in route.edges if edge.source != edge.target}
    # An edge is part of a loop, whichever way its edges point, when its ends are joined without it.
    loops = {pair for pair in pairs if pair[1] in _joined(pair[0], pairs - {pair})}
    stops, sources = [_joined(0, loops)], []
    left = [leg for leg in range(len(route.legs)) if leg not in stops[0]]
    while left:
        near = [
            (leg, s) for leg in left for s, stop in enumerate(stops) if any({(leg, m), (m, leg)} & pairs for m in stop)
        ]
        # Legs that no edge joins to the others may be anywhere, whatever the others' places.
        leg, source = near[0] if near else (left[0], 0)
        stops.append(_joined(leg, loops))
        sources.append(source)
        left = [leg for leg in left if leg not in stops[-1]]
    return (stops, sources) if sources else ([*stops, []], [0])


def _joined(leg: int, pairs: Collection[tuple[int, int]]) -> list[int]:
    """The legs that pairs join to a leg, itself included."""
    found = {leg}
    while more := {end for pair in pairs if found & {*pair} for end in pair} - found:
        found |= more
    return sorted(found)


def _charges(
    route: Route, rate: float, stops: list[list[int]], sources: list[int], allowed: NDArray[np.bool_], per_gb: Floats
) -> list[Floats]:
    """Return arrays by edge, (places, places) $/h of traffic for the whole demand; +∞ where no placement of the route
    passes."""
    open_at = [np.asarray(allowed[stop].all(axis=0)) for stop in stops]
    charges: list[Floats] = []
    for source, stop in zip(sources, stops[1:], strict=True):
        charge = np.zeros(per_gb.shape) if stop else np.where(np.eye(len(per_gb)) > 0, 0.0, np.inf)
        for data in route.edges:
            for start, end, price in ((data.source, data.target, per_gb), (data.target, data.source, per_gb.T)):
                if start in stops[source] and end in stop:
                    usd = np.where(np.isinf(price), 0.0, price) * data.bytes_per_request * rate
                    charge += np.where(np.isinf(price), np.inf, usd * SECONDS_PER_HOUR / BYTES_PER_GB)
        charges.append(charge)
    # A place of a stop is of use if there is a way on to every stop that follows, and one that leads to it.
    for edge in reversed(range(len(sources))):
        open_at[sources[edge]] &= (np.isfinite(charges[edge]) & open_at[edge + 1]).any(axis=1)
    for edge, source in enumerate(sources):
        open_at[edge + 1] &= (np.isfinite(charges[edge]) & open_at[source][:, None]).any(axis=0)
        charges[edge][~(open_at[source][:, None] & open_at[edge + 1])] = np.inf
    return charges


def _trees(
    demand: int, rate: float, route: Route, allowed: NDArray[np.bool_], per_gb: Floats,
    shares: list[tuple[int, float]], hops: list[Hop],
) -> Iterator[RouteTree]:  # fmt: skip
    """The route, unless no choice of places allows it; its hops are added to `hops`.

    By leg: `allowed` (places,) and `shares` (class, share of its peak load). `per_gb` (places, places): of traffic.
    """
    stops, sources = _stops(route)
    charges = _charges(route, rate, stops, sources, allowed, per_gb)
    if not np.isfinite(charges[0]).any():
        return
    numbers = []
    for edge, (source, charge) in enumerate(zip(sources, charges, strict=True)):
        passable = np.isfinite(charge)
        numbers.append(np.where(passable, len(hops) - 1 + np.cumsum(passable).reshape(passable.shape), -1))
        for a, b in np.argwhere(passable).tolist():
            legs = [(leg, a) for leg in stops[source] if edge == 0] + [(leg, b) for leg in stops[edge + 1]]
            load = tuple((shares[leg][0], place, shares[leg][1]) for leg, place in legs if shares[leg][1] > 0)
            hops.append(Hop(demand, edge == 0, (a, b), float(charge[a, b]), load))
    worked = tuple((k, share) for k, share in shares if share > 0)
    yield RouteTree(demand, route, tuple(map(tuple, stops)), tuple(sources), worked, tuple(numbers))
