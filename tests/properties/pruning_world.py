"""Random small markets with pipeline templates, and the exact best allocation over them, as one MILP."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from templates_lib.placement_solver.search import find_placements
from templates_lib.sources.enumeration import NodeSets
from tests.properties.placement_cases import random_units

CONFIGS, N_MAX, ZONES = 3, 3, 2
SLACK = 1e-4
"""Requests/s."""

CLASSES = ("a/prefill", "a/decode", "a/aggregated", "b/aggregated")
ROUTES = ((0, ((0, 1.5), (1, 0.7))), (0, ((2, 1.0),)), (1, ((3, 1.0),)))
"""(demand, legs (class, units per request)): disaggregated beside aggregated."""


@dataclass(frozen=True)
class Made:
    """One template: class, nodes of each configuration, units/s."""

    work: int
    nodes: tuple[int, ...]
    units_per_s: float


@dataclass(frozen=True)
class Market:
    prices: NDArray[np.float64]
    """(zones, 2 markets, configurations) $/h"""
    available: NDArray[np.int64]
    """The same shape; 0: not offered."""
    pool_limit: int
    """Nodes of configuration 0 over all zones and markets."""
    startup_share: float
    """K: start-up cost of a node as a share of its hourly price."""
    usd_per_crossing: float
    """$/h for each request/s whose legs are in different zones."""
    demand: tuple[float, float]
    running: dict[tuple[Made, int, int], int] = field(default_factory=dict)
    """(template, zone, market) → instances"""
    max_replicas: int | None = None
    """Of each class: a guardrail that counts instances."""


@dataclass(frozen=True)
class Best:
    unmet: float
    usd_per_hour: float


def node_sets_of_all(configs: int, n_max: int) -> NodeSets:
    """Every multiset."""
    levels = [[(c,) for c in range(configs)]]
    while len(levels) < n_max:
        levels.append([(*s, c) for s in levels[-1] for c in range(s[-1], configs)])
    rows = [[*s, *(-1,) * (n_max - len(s))] for level in levels for s in level]
    starts = np.cumsum([0, 0, *(len(level) for level in levels)])
    return NodeSets(np.array(rows, dtype=np.int16), starts.astype(np.int64), configs)


def templates(seed: int, *, prune: bool) -> list[Made]:
    """Of all classes, over random T̂; for odd seeds the objective is split unevenly."""
    rng = np.random.default_rng(seed)
    sets = node_sets_of_all(CONFIGS, N_MAX)
    made, even = [], seed % 2 == 0
    for work in range(len(CLASSES)):
        units = random_units(rng, CONFIGS, 6, N_MAX if even else 5, looser_later=not even) * 0.05
        found = find_placements(units, sets, even_split=even, prune=prune, advance=lambda _: None)
        counts = sets.counts(found.rows)
        made += [Made(work, tuple(n.tolist()), float(t)) for n, t in zip(counts, found.units_per_s, strict=True)]
    return made


def random_market(seed: int, made: list[Made]) -> Market:
    rng = np.random.default_rng(seed)
    prices = rng.uniform(0.5, 4.0, CONFIGS) * rng.uniform(0.8, 1.25, (ZONES, 2, CONFIGS)) * [[[1.0], [0.4]]]
    available = rng.integers(0, 6, (ZONES, 2, CONFIGS))
    market = Market(
        prices=prices,
        available=available,
        pool_limit=int(rng.integers(2, 8)),
        startup_share=float(rng.choice([0.0, rng.uniform(0.0, 0.5)])),
        usd_per_crossing=float(rng.uniform(0, 2)),
        demand=tuple(rng.uniform(0.5, 6.0, 2).tolist()),
    )
    running: dict[tuple[Made, int, int], int] = {}
    left = available.copy()
    for index in rng.permutation(len(made))[: int(rng.integers(0, 4))]:
        zone, kind = int(rng.integers(ZONES)), int(rng.integers(2))
        held = np.array(made[index].nodes)
        if (held <= left[zone, kind]).all() and held[0] + sum(k[0].nodes[0] for k in running) <= market.pool_limit:
            running[made[index], zone, kind] = 1
            left[zone, kind] -= held
    return replace(market, running=running)


def served_apart(nodes: tuple[int, ...], others: list[Made]) -> float:
    """The most units/s that `nodes`, or some of them, serve as any number of `others` of one class."""
    most = 0.0
    for part in others:
        left = tuple(n - used for n, used in zip(nodes, part.nodes, strict=True))
        if min(left) >= 0:
            most = max(most, part.units_per_s + served_apart(left, others))
    return most


class _Rows:
    """Constraints Σ coefficient · variable ≤ most, one at a time."""

    def __init__(self) -> None:
        self.cells: list[tuple[int, int, float]] = []
        self.most: list[float] = []

    def add(self, terms: dict[int, float], most: float) -> None:
        self.cells += [(len(self.most), column, value) for column, value in terms.items()]
        self.most.append(most)

    def matrix(self, columns: int) -> LinearConstraint:
        row, column, value = zip(*self.cells, strict=True)
        shape = (len(self.most), columns)
        return LinearConstraint(coo_matrix((value, (row, column)), shape=shape).tocsr(), -np.inf, self.most)


def best_allocation(market: Market, made: list[Made], least_unmet: float | None = None) -> Best:
    """The least unmet demand, and the least cost with that (or with `least_unmet`), both to optimality."""
    columns = [
        (t, z, m)
        for t in made
        for z in range(ZONES)
        for m in range(2)
        if all(n <= a for n, a in zip(t.nodes, market.available[z, m], strict=True))
    ]
    flows = [
        (r, zones)
        for r, (_, legs) in enumerate(ROUTES)
        for zones in (
            [(z,) for z in range(ZONES)] if len(legs) == 1 else [(y, z) for y in range(ZONES) for z in range(ZONES)]
        )
    ]
    new0, flow0 = len(columns), 2 * len(columns)
    unmet0 = flow0 + len(flows)
    size = unmet0 + len(market.demand)
    rows = _Rows()
    cost = np.zeros(size)
    for i, (t, z, m) in enumerate(columns):
        rent = float(np.dot(t.nodes, market.prices[z, m]))
        cost[i], cost[new0 + i] = rent, market.startup_share * rent
        rows.add({i: 1.0, new0 + i: -1.0}, market.running.get((t, z, m), 0))
    for z in range(ZONES):
        for m in range(2):
            for c in range(CONFIGS):
                used = {
                    i: float(t.nodes[c]) for i, (t, zt, mt) in enumerate(columns) if (zt, mt) == (z, m) and t.nodes[c]
                }
                rows.add(used or {0: 0.0}, float(market.available[z, m, c]))
    rows.add({i: float(t.nodes[0]) for i, (t, _, _) in enumerate(columns) if t.nodes[0]} or {0: 0.0}, market.pool_limit)
    for work in range(len(CLASSES)):
        for z in range(ZONES):
            terms = {i: -t.units_per_s for i, (t, zt, _) in enumerate(columns) if (t.work, zt) == (work, z)}
            for f, (r, zones) in enumerate(flows):
                for leg, (class_of_leg, units) in enumerate(ROUTES[r][1]):
                    if (class_of_leg, zones[leg]) == (work, z):
                        terms[flow0 + f] = units
            rows.add(terms, 0.0)
        if market.max_replicas is not None:
            rows.add({i: 1.0 for i, (t, _, _) in enumerate(columns) if t.work == work} or {0: 0.0}, market.max_replicas)
    for d, rate in enumerate(market.demand):
        served = {flow0 + f: -1.0 for f, (r, _) in enumerate(flows) if ROUTES[r][0] == d}
        rows.add({**served, unmet0 + d: -1.0}, -rate)
    for f, (_, zones) in enumerate(flows):
        cost[flow0 + f] = market.usd_per_crossing * (len(set(zones)) - 1)
    integrality = np.zeros(size)
    integrality[:new0] = 1
    short = np.zeros(size)
    short[unmet0:] = 1.0
    constraints = rows.matrix(size)

    def solve(objective: NDArray[np.float64], *extra: LinearConstraint) -> float:
        bounds, options = Bounds(0, np.inf), {"mip_rel_gap": 0.0}
        result = milp(
            objective, integrality=integrality, bounds=bounds, constraints=[constraints, *extra], options=options
        )
        assert result.status == 0, result.message
        return float(result.fun)

    unmet = solve(short)
    allowed = (unmet if least_unmet is None else least_unmet) + SLACK
    return Best(unmet, solve(cost, LinearConstraint(short[None, :], -np.inf, allowed)))
