"""Ways that demand may take over places, and the load that each puts on every work class.

A place is a zone; in mode `paper` there is one place, nowhere, and nothing is charged for moving.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand, Route

NOWHERE = ""
SECONDS_PER_HOUR = 3600.0
BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Way:
    """One route of one demand with a place for every leg, carrying the whole demand when its share is 1."""

    demand: int
    route: Route
    places: tuple[int, ...]
    usd_per_hour: float
    """Traffic when the whole demand takes this way."""
    load: tuple[tuple[int, int, float], ...]
    """(class, place, share of the class's peak load)."""


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """D demands over K demanded work classes and their ways."""

    demands: tuple[Demand, ...]
    classes: tuple[int, ...]
    """Index in the library of each demanded class."""
    peak: NDArray[np.float64]
    """(K,) units per second if every demand took the route that loads the class most."""
    demand_load: NDArray[np.float64]
    """(D, K) what each demand adds to that, as a share of it."""
    places: tuple[str, ...]
    ways: tuple[Way, ...]


def read_routing(
    snapshot: Snapshot,
    class_ids: tuple[str, ...],
    zones: tuple[str, ...],
    class_zone: NDArray[np.bool_],
    also: frozenset[int],
) -> Routing:
    """The demands above zero and their ways over places where every leg's class can be had at all.

    `class_zone` (library classes, zones) says where some template of the class fits what is sold. Classes in `also`
    are listed even when nothing demands them.
    """
    paper = snapshot.settings.mode is Mode.PAPER
    places = (NOWHERE,) if paper else zones
    class_place: NDArray[np.bool_] = np.asarray(class_zone.any(axis=1, keepdims=True) if paper else class_zone)
    prices = {} if paper else {(t.source, t.target): t.usd_per_gb for t in snapshot.traffic}
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
    ways: list[Way] = []
    for d, routes in enumerate(usable):
        for route in routes:
            rate = demands[d].requests_per_s
            allowed = [np.flatnonzero(class_place[index[leg.work_class]]) for leg in route.legs]
            ways.extend(
                _way(d, rate, route, chosen, places, prices, class_of, peak)
                for chosen in _placements(route, places, allowed, prices)
            )
    return Routing(demands, classes, peak, load / np.where(peak > 0, peak, 1.0), places, tuple(ways))


def routes_of(demand: Demand, routes: tuple[Route, ...]) -> list[Route]:
    return [r for r in routes if (r.app, r.request_type) == (demand.app, demand.request_type)]


def _units(route: Route, class_of: dict[str, int]) -> NDArray[np.float64]:
    units = np.zeros(len(class_of))
    for leg in route.legs:
        units[class_of[leg.work_class]] += leg.units_per_request
    return units


def _placements(
    route: Route,
    places: tuple[str, ...],
    allowed: Sequence[NDArray[np.integer[Any]]],
    prices: dict[tuple[str, str], float],
) -> Iterator[tuple[int, ...]]:
    """Every choice of a place per leg in which each edge stays in its place or crosses where that has a price."""

    def fits(chosen: list[int], leg: int, place: int) -> bool:
        for edge in route.edges:
            if max(edge.source, edge.target) != leg:
                continue
            ends = [place if end == leg else chosen[end] for end in (edge.source, edge.target)]
            if ends[0] != ends[1] and (places[ends[0]], places[ends[1]]) not in prices:
                return False
        return True

    def extend(chosen: list[int]) -> Iterator[tuple[int, ...]]:
        leg = len(chosen)
        if leg == len(route.legs):
            yield tuple(chosen)
            return
        for place in allowed[leg]:
            if fits(chosen, leg, int(place)):
                yield from extend([*chosen, int(place)])

    return extend([])


def _way(
    demand: int,
    rate: float,
    route: Route,
    chosen: tuple[int, ...],
    places: tuple[str, ...],
    prices: dict[tuple[str, str], float],
    class_of: dict[str, int],
    peak: NDArray[np.float64],
) -> Way:
    usd = 0.0
    for edge in route.edges:
        ends = places[chosen[edge.source]], places[chosen[edge.target]]
        if ends[0] != ends[1]:
            usd += prices[ends] * edge.bytes_per_request * rate * SECONDS_PER_HOUR / BYTES_PER_GB
    load: dict[tuple[int, int], float] = {}
    for leg, place in zip(route.legs, chosen, strict=True):
        k = class_of[leg.work_class]
        if leg.units_per_request > 0:
            load[k, place] = load.get((k, place), 0.0) + rate * leg.units_per_request / peak[k]
    return Way(demand, route, chosen, usd, tuple((k, p, share) for (k, p), share in load.items()))
