"""Homo: every model takes the homogeneous single-node strategy with the best goodput per dollar (Coral, section 6.1).

A strategy of a route is one kind of replica for each leg. Models choose in order of priority, then as listed, each in
isolation: whoever comes first takes the nodes that several want. With zones, the legs of a strategy are in one zone,
so no traffic is bought; in mode `paper` they may be anywhere.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil

from policies.fixed_fleet import Count, plan_of_counts
from policies.strategy import Replica, single_node_replicas
from policies.supply_ledger import Place, SupplyLedger
from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Flow, Plan
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand, Route

EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class _Strategy:
    route: Route
    replicas: tuple[Replica, ...]
    """One for each leg."""

    @property
    def usd_per_request(self) -> float:
        """$/h for one request per second."""
        legs = zip(self.route.legs, self.replicas, strict=True)
        return sum(leg.units_per_request * replica.usd_per_unit for leg, replica in legs)


class _Fleet:
    """Replicas bought so far and the work that they carry."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._ledger = SupplyLedger(snapshot)
        self._used: dict[Replica, float] = {}
        self.bought: Counter[Replica] = Counter()

    @property
    def nodes_by_offer(self) -> Counter[str]:
        return self._ledger.taken

    def serve(self, strategy: _Strategy, requests_per_s: float) -> float:
        """Carry as much of `requests_per_s` as the strategy's nodes allow; returns what it carries."""
        legs = list(zip(strategy.route.legs, strategy.replicas, strict=True))
        for leg, replica in legs:
            nodes = self.bought[replica] + self._ledger.obtainable(_place(replica))
            requests_per_s = min(requests_per_s, self._spare(replica, nodes) / leg.units_per_request)
        if requests_per_s <= EPSILON:
            return 0.0
        for leg, replica in legs:
            work = self._used.get(replica, 0.0) + requests_per_s * leg.units_per_request
            missing = ceil(work / replica.units_per_s - EPSILON) - self.bought[replica]
            if missing > 0:
                self.bought[replica] += self._ledger.take(_place(replica), missing)
        for leg, replica in legs:  # a pool that both legs draw on may have given less than it promised to each
            spare = self._spare(replica, self.bought[replica])
            requests_per_s = min(requests_per_s, spare / leg.units_per_request)
        for leg, replica in legs:
            self._used[replica] = self._used.get(replica, 0.0) + requests_per_s * leg.units_per_request
        return requests_per_s

    def _spare(self, replica: Replica, nodes: int) -> float:
        return max(nodes * replica.units_per_s - self._used.get(replica, 0.0), 0.0)


def plan_homo(snapshot: Snapshot, library: Library, solve: Solve) -> Plan:  # noqa: ARG001 - greedy needs no solver
    """The greedy plan; demand that its models could not get nodes for is unmet."""
    replicas = single_node_replicas(snapshot, library)
    fleet = _Fleet(snapshot)
    flows: defaultdict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
    for demand in sorted(snapshot.demand, key=lambda d: -d.priority):
        left = demand.requests_per_s
        for strategy in _strategies(snapshot, demand, replicas):
            if left <= EPSILON:
                break
            carried = fleet.serve(strategy, left)
            left -= carried
            if carried > 0:
                flows[strategy.route.id, _zones(strategy, snapshot.settings.mode)] += carried
    counts = [Count(r.template, r.zone, r.market, n) for r, n in fleet.bought.items() if n]
    chosen = tuple(Flow(route, zones, rate, 0.0) for (route, zones), rate in flows.items())
    return plan_of_counts(snapshot, library, counts, fleet.nodes_by_offer, chosen, policy="homo")


def _place(replica: Replica) -> Place:
    return replica.config, replica.zone, replica.market


def _zones(strategy: _Strategy, mode: Mode) -> tuple[str, ...]:
    return tuple("" if mode is Mode.PAPER else r.zone for r in strategy.replicas)


def _strategies(snapshot: Snapshot, demand: Demand, replicas: dict[str, tuple[Replica, ...]]) -> list[_Strategy]:
    """Every strategy for `demand`, best goodput per dollar first."""
    routes = [r for r in snapshot.routes if (r.app, r.request_type) == (demand.app, demand.request_type)]
    together = snapshot.settings.mode is Mode.ZONES
    found = [s for route in routes for s in _strategies_of(route, replicas, together=together)]
    return sorted(found, key=lambda s: (s.usd_per_request, s.route.id, [_place(r) for r in s.replicas]))


def _strategies_of(route: Route, replicas: dict[str, tuple[Replica, ...]], *, together: bool) -> Iterator[_Strategy]:
    by_leg = [replicas.get(leg.work_class, ()) for leg in route.legs]
    zones: tuple[str | None, ...] = (None,)
    if together:
        zones = tuple(sorted({r.zone for r in by_leg[0]}))
    for zone in zones:
        at_zone = [[r for r in leg if zone is None or r.zone == zone] for leg in by_leg]
        for combination in product(*at_zone):
            yield _Strategy(route, combination)
