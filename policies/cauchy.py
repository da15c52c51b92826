"""Cauchy: GPU combos of one prefill replica that feeds k decode replicas (Coral, section 6.1).

Each phase of a combo is homogeneous and each replica one node. As the Coral paper describes it, cost efficiency is per
model: an integer program minimises Σ over models of (cost / the model's own lowest cost per request), so every model
weighs the same however expensive it is, and all of them pull towards the nodes that are best in isolation. Unmet
demand comes first, in the same relative measure. Routes of one leg (aggregated serving) are combos of one replica;
routes of more than two legs are not Cauchy's and are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from policies.fixed_fleet import Count, plan_of_counts
from policies.integer_program import IntegerProgram
from policies.strategy import Replica, single_node_replicas
from policies.supply_ledger import Place, SupplyLedger
from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.offer import Market
from templates_lib.values.plan import Flow, Plan
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand, Route

MAX_DECODE_PER_PREFILL = 8
UNMET_WEIGHT = 1_000.0
"""Against relative costs of 1 (the model's best combo) to a few tens (its worst)."""
TIE_BREAK = 1e-4
"""Weight of plain dollars, so that the cheapest offer of a place is used first."""


@dataclass(frozen=True, slots=True)
class Combo:
    route: Route
    replicas: tuple[Replica, ...]
    counts: tuple[int, ...]
    """Number of each replica; (1, k) for a prefill replica that feeds k decode replicas."""

    @property
    def requests_per_s(self) -> float:
        legs = zip(self.route.legs, self.replicas, self.counts, strict=True)
        return min(n * r.units_per_s / leg.units_per_request for leg, r, n in legs)

    @property
    def usd_per_hour(self) -> float:
        return sum(n * r.usd_per_hour for r, n in zip(self.replicas, self.counts, strict=True))

    @property
    def usd_per_request(self) -> float:
        return self.usd_per_hour / self.requests_per_s


def plan_cauchy(snapshot: Snapshot, library: Library, solve: Solve) -> Plan:  # noqa: ARG001 - has a program of its own
    """The optimum of Cauchy's own program over its combos."""
    replicas = single_node_replicas(snapshot, library)
    chosen, nodes_by_offer = _choose(snapshot, {d.key: list(_combos(snapshot, d, replicas)) for d in snapshot.demand})
    counts: Counter[tuple[int, str, Market]] = Counter()
    for combo, n in chosen:
        for replica, per_combo in zip(combo.replicas, combo.counts, strict=True):
            counts[replica.template, replica.zone, replica.market] += n * per_combo
    fleet = [Count(*key, count) for key, count in counts.items()]
    return plan_of_counts(snapshot, library, fleet, nodes_by_offer, _flows(snapshot, chosen), policy="cauchy")


def _combos(snapshot: Snapshot, demand: Demand, replicas: dict[str, tuple[Replica, ...]]) -> Iterator[Combo]:
    for route in snapshot.routes:
        if (route.app, route.request_type) != (demand.app, demand.request_type):
            continue
        by_leg = [replicas.get(leg.work_class, ()) for leg in route.legs]
        if len(by_leg) == 1:
            yield from (Combo(route, (r,), (1,)) for r in by_leg[0])
        elif len(by_leg) == 2:
            for prefill, decode in product(*by_leg):
                if snapshot.settings.mode is Mode.PAPER or prefill.zone == decode.zone:
                    yield from _pairings(route, prefill, decode)


def _pairings(route: Route, prefill: Replica, decode: Replica) -> Iterator[Combo]:
    """The numbers of decode replicas on either side of the balance; all others waste a whole replica."""
    fed = prefill.units_per_s / route.legs[0].units_per_request
    needs = decode.units_per_s / route.legs[1].units_per_request
    for k in {min(max(n, 1), MAX_DECODE_PER_PREFILL) for n in (floor(fed / needs), ceil(fed / needs))}:
        yield Combo(route, (prefill, decode), (1, k))


def _choose(snapshot: Snapshot, combos: dict[str, list[Combo]]) -> tuple[list[tuple[Combo, int]], Counter[str]]:
    """Counts of combos that minimise relative cost at the least relative unmet demand, and nodes by offer."""
    program = IntegerProgram(seed=snapshot.settings.seed)
    use: dict[Place, dict[int, float]] = defaultdict(dict)
    variables: list[tuple[int, Combo]] = []
    for demand in snapshot.demand:
        if demand.requests_per_s <= 0:
            continue
        # Where a machine of one's own costs nothing, costs of this model are relative to nothing: dollars as they are.
        best = min((c.usd_per_request for c in combos[demand.key]), default=1.0) or 1.0
        row = {program.add(UNMET_WEIGHT * 10.0**demand.priority, upper=demand.requests_per_s, integer=False): 1.0}
        for combo in combos[demand.key]:
            limit = ceil(demand.requests_per_s / combo.requests_per_s)
            column = program.add(combo.usd_per_hour / best, upper=limit)
            variables.append((column, combo))
            row[column] = min(combo.requests_per_s, demand.requests_per_s)
            for replica, n in zip(combo.replicas, combo.counts, strict=True):
                place = use[replica.config, replica.zone, replica.market]
                place[column] = place.get(column, 0.0) + n
        program.require(row, lower=demand.requests_per_s)
    rented = _limit_supply(snapshot, program, use)
    values = np.rint(program.minimise()).astype(int)
    return [(c, int(values[i])) for i, c in variables if values[i]], _nodes_by_offer(snapshot, use, rented, values)


def _limit_supply(snapshot: Snapshot, program: IntegerProgram, use: dict[Place, dict[int, float]]) -> dict[str, int]:
    """Nodes used at a place come from its offers, bounded alone and together by pools; returns the offers' columns."""
    ledger = SupplyLedger(snapshot)
    rented: dict[str, int] = {}
    rows = {place: dict(row) for place, row in use.items()}
    for offer in snapshot.offers:
        place = (offer.node_config, offer.zone_id, offer.market)
        if place in use:
            rented[offer.key] = program.add(TIE_BREAK * offer.usd_per_hour, upper=ledger.obtainable_of(offer.key))
            rows[place][rented[offer.key]] = -1.0
    for row in rows.values():
        program.require(row, upper=0.0)
    for pool in snapshot.pools:
        members = {rented[key]: weight for key, weight in pool.members.items() if key in rented}
        if members:
            program.require(members, upper=pool.limit)
    return rented


def _nodes_by_offer(
    snapshot: Snapshot, use: dict[Place, dict[int, float]], rented: dict[str, int], values: NDArray[np.int_]
) -> Counter[str]:
    """Count the nodes that the combos use of each offer, cheapest first (the program may have rented more than it
    uses)."""
    nodes: Counter[str] = Counter()
    missing = {place: round(sum(n * values[i] for i, n in row.items())) for place, row in use.items()}
    for offer in sorted(snapshot.offers, key=lambda o: (o.usd_per_hour, o.key)):
        place = (offer.node_config, offer.zone_id, offer.market)
        if offer.key in rented:
            nodes[offer.key] = min(missing[place], int(values[rented[offer.key]]))
            missing[place] -= nodes[offer.key]
    return nodes


def _flows(snapshot: Snapshot, chosen: list[tuple[Combo, int]]) -> tuple[Flow, ...]:
    """Demand spread over the chosen combos, each up to what it carries."""
    left = {d.key: d.requests_per_s for d in snapshot.demand}
    flows: defaultdict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
    for combo, n in chosen:
        key = f"{combo.route.app}/{combo.route.request_type}"
        carried = min(left[key], n * combo.requests_per_s)
        left[key] -= carried
        paper = snapshot.settings.mode is Mode.PAPER
        flows[combo.route.id, tuple("" if paper else r.zone for r in combo.replicas)] += carried
    return tuple(Flow(route, zones, rate, 0.0) for (route, zones), rate in flows.items() if rate > 0)
