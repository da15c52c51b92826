"""The cheapest plan of a tiny snapshot by trying every integer count: what the planner is held to.

Independent of the planner. Flows and mixtures of operating points come from a small linear program (scipy) for each
combination of counts; combinations are tried in order of their fixed cost, so that the first ones usually decide.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog

from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Route

Templates = Mapping[str, tuple[Mapping[str, int], Sequence[Mapping[str, float]]]]
"""Template id → (nodes, operating points)."""
Place = tuple[str, str]


@dataclass(frozen=True)
class Best:
    unmet_requests_per_s: float
    objective: float
    """Rent, traffic, initialisation and spot risk at the least unmet demand."""
    counts: dict[tuple[str, str, Market], int]
    tried: int
    """Linear programs solved."""


@dataclass(frozen=True)
class _Column:
    template: str
    zone: str
    market: Market
    offers: dict[str, int]
    """Offer key → nodes of one instance."""
    rent: float
    risk: float
    running: int
    points: Sequence[Mapping[str, float]]


def best_plan(snapshot: Snapshot, templates: Templates, *, most_instances: int = 20) -> Best:
    """Needs one offer per (configuration, zone, market), all counts known and one priority."""
    columns = list(_columns(snapshot, templates))
    flow = _FlowProgram(snapshot, columns)
    candidates = sorted(_counts(snapshot, columns, most_instances), key=lambda c: _fixed_cost(snapshot, columns, c))
    best = Best(math.inf, math.inf, {}, 0)
    tried = 0
    for counts in candidates:
        fixed = _fixed_cost(snapshot, columns, counts)
        if best.unmet_requests_per_s <= 1e-7 and fixed >= best.objective:
            break
        if best.unmet_requests_per_s <= 1e-7 and not flow.may_serve_all(counts):
            continue
        tried += 1
        unmet, traffic = flow.solve(counts)
        if (round(unmet, 6), fixed + traffic) < (round(best.unmet_requests_per_s, 6), best.objective):
            named = {(c.template, c.zone, c.market): n for c, n in zip(columns, counts, strict=True) if n}
            best = Best(unmet, fixed + traffic, named, tried)
    return Best(best.unmet_requests_per_s, best.objective, best.counts, tried)


def _columns(snapshot: Snapshot, templates: Templates) -> Iterator[_Column]:
    cells: dict[tuple[str, str, Market], Offer] = {}
    for offer in snapshot.offers:
        key = (offer.node_config, offer.zone_id, offer.market)
        assert key not in cells, "one offer per cell"
        assert offer.available_count is not None
        cells[key] = offer
    running = Counter((i.template_id, i.zone, i.market) for i in snapshot.instances if i.state == "ready")
    groups = sorted({(zone, market) for _, zone, market in cells})
    for name, (nodes, points) in templates.items():
        for zone, market in groups:
            if all((config, zone, market) in cells for config in nodes):
                sold = {config: cells[config, zone, market] for config in nodes}
                rent = sum(n * sold[c].usd_per_hour for c, n in nodes.items())
                often = sum(n * sold[c].interruptions_per_hour for c, n in nodes.items())
                risk = rent * often * snapshot.settings.restart_hours if market is Market.SPOT else 0.0
                offers = {sold[c].key: n for c, n in nodes.items()}
                yield _Column(name, zone, market, offers, rent, risk, running[name, zone, market], points)


def _counts(snapshot: Snapshot, columns: list[_Column], most: int) -> Iterator[tuple[int, ...]]:
    held = Counter(n.offer for i in snapshot.instances if i.state == "ready" for n in i.nodes)
    left = {o.key: (o.available_count or 0) + held[o.key] for o in snapshot.offers}
    pools = [(dict(p.members), p.limit) for p in snapshot.pools]

    def extend(index: int, left: dict[str, int], pools: list[float]) -> Iterator[tuple[int, ...]]:
        if index == len(columns):
            yield ()
            return
        column = columns[index]
        for count in range(most + 1):
            rest = {k: n - count * column.offers.get(k, 0) for k, n in left.items()}
            room = [
                limit - sum(count * n * snapshot.pools[i].members.get(k, 0.0) for k, n in column.offers.items())
                for i, limit in enumerate(pools)
            ]
            if min(rest.values()) < 0 or min(room, default=0.0) < -1e-9:
                return
            for tail in extend(index + 1, rest, room):
                yield (count, *tail)

    return extend(0, left, [limit for _, limit in pools])


def _fixed_cost(snapshot: Snapshot, columns: list[_Column], counts: tuple[int, ...]) -> float:
    startup = snapshot.settings.startup_minutes / snapshot.settings.adjustment_interval_minutes
    return sum(
        n * (c.rent + c.risk) + startup * c.rent * max(n - c.running, 0) for c, n in zip(columns, counts, strict=True)
    )


class _FlowProgram:
    """Variables: requests/s of every way, instances at every operating point, unmet requests/s of every demand."""

    def __init__(self, snapshot: Snapshot, columns: list[_Column]) -> None:
        self._paper = snapshot.settings.mode is Mode.PAPER
        self._demand = [d.requests_per_s for d in snapshot.demand]
        self._ways = list(self._all_ways(snapshot, columns))
        self._points = [(i, p) for i, c in enumerate(columns) for p in c.points]
        self._columns = columns
        width = len(self._ways) + len(self._points) + len(self._demand)
        places: defaultdict[Place, np.ndarray] = defaultdict(lambda: np.zeros(width))
        self._serve = np.zeros((len(self._demand), width))
        for w, (demand, load, _) in enumerate(self._ways):
            self._serve[demand, w] = 1.0
            for place, units in load.items():
                places[place][w] += units
        for p, (column, point) in enumerate(self._points):
            zone = "" if self._paper else columns[column].zone
            for name, units in point.items():
                places[name, zone][len(self._ways) + p] -= snapshot.settings.utilisation_cap * units
        mix = np.zeros((len(columns), width))
        for p, (column, _) in enumerate(self._points):
            mix[column, len(self._ways) + p] = 1.0
        unmet = len(self._ways) + len(self._points) + np.arange(len(self._demand))
        self._serve[np.arange(len(self._demand)), unmet] = 1.0
        self._rows = np.vstack([*places.values(), mix])
        self._place_count = len(places)
        self._unmet_cost = np.zeros(width)
        self._unmet_cost[unmet] = 1.0
        self._traffic_cost = np.zeros(width)
        self._traffic_cost[: len(self._ways)] = [usd for _, _, usd in self._ways]

    def may_serve_all(self, counts: tuple[int, ...]) -> bool:
        """A cheap necessary condition: every class that all routes of a demand need has some capacity."""
        have = {name for n, c in zip(counts, self._columns, strict=True) if n for p in c.points for name in p}
        return all(
            any(all(name in have for name, _ in load) for d, load, _ in self._ways if d == demand)
            for demand in range(len(self._demand))
        )

    def solve(self, counts: tuple[int, ...]) -> tuple[float, float]:
        """(least unmet requests/s, least traffic $/h at that)."""
        upper = np.concatenate([np.zeros(self._place_count), np.array(counts, dtype=float)])
        first = linprog(self._unmet_cost, self._rows, upper, self._serve, self._demand, method="highs")
        assert first.status == 0, first.message
        if not self._traffic_cost.any():
            return float(first.fun), 0.0
        rows = np.vstack([self._rows, self._unmet_cost])
        limit = np.append(upper, first.fun + 1e-9)
        second = linprog(self._traffic_cost, rows, limit, self._serve, self._demand, method="highs")
        assert second.status == 0, second.message
        return float(first.fun), float(second.fun)

    def _all_ways(self, snapshot: Snapshot, columns: list[_Column]) -> Iterator[tuple[int, dict[Place, float], float]]:
        zones = [""] if self._paper else sorted({c.zone for c in columns})
        for index, demand in enumerate(snapshot.demand):
            for route in snapshot.routes:
                if (route.app, route.request_type) == (demand.app, demand.request_type):
                    for chosen in product(zones, repeat=len(route.legs)):
                        usd = _usd_per_request_per_s(snapshot, route, chosen)
                        load: defaultdict[Place, float] = defaultdict(float)
                        for leg, zone in zip(route.legs, chosen, strict=True):
                            load[leg.work_class, zone] += leg.units_per_request
                        if math.isfinite(usd):
                            yield index, dict(load), usd


def _usd_per_request_per_s(snapshot: Snapshot, route: Route, zones: tuple[str, ...]) -> float:
    """$/h of traffic for one request per second; infinite where a crossing has no price."""
    price = {(t.source, t.target): t.usd_per_gb for t in snapshot.traffic}
    usd = 0.0
    for edge in route.edges:
        ends = zones[edge.source], zones[edge.target]
        if ends[0] != ends[1]:
            usd += 3600 * edge.bytes_per_request / 1e9 * price.get(ends, math.inf)
    return usd
