"""Shares on the arcs of a tree-shaped route say as much as shares of every listed way, which is a zone for each leg."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from control.allocator.routing import BYTES_PER_GB, SECONDS_PER_HOUR, RoutedDemands, RouteTree, read_routing
from templates_lib.values.work import Leg, Route
from tests import factories as make
from tests.control.allocator.route_cases import tree_edges

MOST_LEGS, MOST_ZONES, TREES = 5, 4, 300
UNSERVED_USD_PER_HOUR = 1e4
"""For the whole demand: more than any traffic that is drawn, so that as much is served as can be."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TreeCase:
    """A demand whose route is a tree, and what each zone has of each leg's class."""

    route: Route
    requests_per_s: float
    usd_per_gb: Mapping[tuple[str, str], float]
    class_ids: tuple[str, ...]
    zones: tuple[str, ...]
    units_per_s: Floats
    """(classes, zones)"""

    def routing(self) -> RoutedDemands:
        offers = [make.offer("c0", zone, 1.0) for zone in self.zones]
        snapshot = make.snapshot(offers, [self.route], {"a": self.requests_per_s}, traffic=self.usd_per_gb)
        return read_routing(snapshot, self.class_ids, self.zones, self.units_per_s > 0, frozenset())

    def ways(self) -> dict[tuple[int, ...], float]:
        """Zone of each leg, for every choice of zones that is allowed → $/h of traffic of the whole demand."""
        have = [np.flatnonzero(self.units_per_s[self.class_ids.index(leg.work_class)]) for leg in self.route.legs]
        found = {}
        for way in itertools.product(*(each.tolist() for each in have)):
            moves = [(self.zones[way[e.source]], self.zones[way[e.target]], e.bytes_per_request)
                     for e in self.route.edges if way[e.source] != way[e.target]]  # fmt: skip
            if all((a, b) in self.usd_per_gb for a, b, _ in moves):
                usd_per_request = sum(self.usd_per_gb[a, b] * size for a, b, size in moves) / BYTES_PER_GB
                found[way] = usd_per_request * self.requests_per_s * SECONDS_PER_HOUR
        return found

    def load(self, way: tuple[int, ...]) -> Floats:
        """(classes, zones) units per second of the whole demand on a way."""
        found = np.zeros_like(self.units_per_s)
        for leg, zone in zip(self.route.legs, way, strict=True):
            found[self.class_ids.index(leg.work_class), zone] += self.requests_per_s * leg.units_per_request
        return found


def tree_case(seed: int) -> TreeCase:
    rng = random.Random(seed)
    zones = tuple(f"x/z{number}" for number in range(rng.randint(1, MOST_ZONES)))
    legs = rng.randint(1, MOST_LEGS)
    kinds = [f"a/leg{rng.randrange(legs) if rng.random() < 0.2 else leg}" for leg in range(legs)]
    route = Route("a/tree", "a", "chat", tuple(Leg(kind, rng.choice([0.5, 1.0, 2.0])) for kind in kinds),
                  tree_edges(rng, legs))  # fmt: skip
    prices = {(a, b): rng.choice([0.0, 0.01, 0.05]) for a in zones for b in zones if a != b and rng.random() < 0.8}
    class_ids = tuple(sorted(set(kinds)))
    units = [[rng.uniform(0.2, 4.0) if rng.random() < 0.8 else 0.0 for _ in zones] for _ in class_ids]
    return TreeCase(route, rng.choice([1.0, 3.0, 6.0]), prices, class_ids, zones, np.array(units))


def best_ways(case: TreeCase) -> float:
    """$/h of traffic and of what is not served, at best, with a share for every listed way."""
    ways = case.ways()
    if not ways:
        return UNSERVED_USD_PER_HOUR
    loads = np.array([case.load(way).ravel() for way in ways]).T
    rows = np.vstack([loads, np.ones(len(ways))])
    solved = linprog(np.array([*ways.values()]) - UNSERVED_USD_PER_HOUR, rows, [*case.units_per_s.ravel(), 1.0])
    return float(solved.fun) + UNSERVED_USD_PER_HOUR


def best_arcs(case: TreeCase, routing: RoutedDemands, tree: RouteTree) -> tuple[float, Floats]:
    """The same with a share for every hop of its tree, and those shares."""
    hops = routing.hops
    rows = np.zeros((case.units_per_s.size + 1, len(hops)))
    for number, hop in enumerate(hops):
        rows[-1, number] = hop.enters
        for kind, place, share in hop.load:
            rows[kind * len(case.zones) + place, number] += share * routing.peak[kind]
    balance = np.zeros((sum(1 for _ in tree.balances()), len(hops)))
    for row, (come, leave) in zip(balance, tree.balances(), strict=True):
        row[come], row[leave] = 1.0, -1.0
    cost = np.array([hop.usd_per_hour - UNSERVED_USD_PER_HOUR * hop.enters for hop in hops])
    solved = linprog(cost, rows, [*case.units_per_s.ravel(), 1.0], balance, np.zeros(len(balance)))
    return float(solved.fun) + UNSERVED_USD_PER_HOUR, solved.x


@pytest.mark.parametrize("start", range(0, TREES, TREES // 10))
def test_arcs_carry_what_listed_ways_carry(start: int) -> None:
    for seed in range(start, start + TREES // 10):
        case = tree_case(seed)
        routing, ways = case.routing(), case.ways()
        assert bool(routing.trees) == bool(ways), seed
        if not ways:
            continue
        (tree,) = routing.trees
        best, share = best_arcs(case, routing, tree)
        assert best == pytest.approx(best_ways(case), abs=1e-5), seed
        placed = tree.placements(share, 1e-9)
        assert all(way in ways for way, _, _ in placed), seed
        assert len(placed) <= np.count_nonzero(share > 1e-9), seed
        load = sum((part * case.load(way) for way, _, part in placed), np.zeros_like(case.units_per_s))
        assert np.all(load <= case.units_per_s + 1e-6), seed
        usd = sum(part * (ways[way] - UNSERVED_USD_PER_HOUR) for way, _, part in placed) + UNSERVED_USD_PER_HOUR
        assert usd == pytest.approx(best, abs=1e-3), seed
