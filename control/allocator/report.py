"""A settled solution as a plan."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import numpy as np

from control.allocator.columns import Floats, Ints
from control.allocator.market import running_counts
from control.allocator.problem import AllocationProblem
from control.allocator.search import SearchOutcome
from control.allocator.settle import Settled
from templates_lib.values.plan import Flow, Plan, PlannedInstance, PlannedOffer, Reason

LEAST_FLOW = 1e-9
"""Shares of a demand under this are rounding of the solver."""
LEAST_UNMET = 1e-6
"""The same for the share that is not served, which the solver may leave at its feasibility tolerance."""
LEAST_DUAL = 1e-9


def planned_offers(problem: AllocationProblem, settled: Settled) -> tuple[PlannedOffer, ...]:
    """Every node of the plan by the offer it is rented from; held offers that it leaves are not listed."""
    supply = problem.supply
    used = _nodes_by_cell(problem, settled)
    planned = []
    for o, offer in enumerate(supply.offers):
        c, g = int(supply.offer_config[o]), int(supply.offer_group[o])
        nodes = int(used[c, g]) if supply.only_offer[c, g] == o else int(settled.offers[o])
        if nodes > 0:
            held = min(nodes, int(supply.offer_held[o]))
            planned.append(PlannedOffer(offer.key, offer.node_config, nodes, held, offer.usd_per_hour))
    return tuple(planned)


def planned_instances(problem: AllocationProblem, settled: Settled) -> tuple[PlannedInstance, ...]:
    """One row per (template, zone, market); nodes of a cell of several offers cost their average."""
    supply, library, columns = problem.supply, problem.library, problem.columns
    disks = columns.disks(settled.template, settled.group)
    mean = mean_prices(problem, settled)
    running = running_counts(problem.snapshot)
    rows = []
    of = zip(settled.template, settled.group, settled.count, disks, strict=True)
    for template, group, count, disk_usd in of:
        zone, market = supply.groups[group]
        name = library.template_id(int(template))
        nodes = library.nodes[template]
        units = _units_per_instance(problem, settled, int(template), int(group), int(count))
        served = [c for c in library.classes if c.id in units]
        model, phase = _joined(c.component for c in served), _joined(c.phase for c in served)
        bill = {library.configs[c]: int(nodes[c]) for c in np.flatnonzero(nodes)}
        kept, usd = min(int(count), running[name, zone, market]), float(count * (nodes @ mean[:, group] + disk_usd))
        gib = round(columns.disk_gib[template] / nodes.sum())
        what = name, model, phase, zone, market, int(count), kept, bill, units, usd
        rows.append(PlannedInstance(*what, disk_gib=gib, engines=library.engine_of(int(template))))
    return tuple(rows)


def _joined(names: Iterable[str]) -> str:
    """Join them, each part of each once."""
    return "+".join(dict.fromkeys(part for name in names for part in name.split("+")))


def _nodes_by_cell(problem: AllocationProblem, settled: Settled) -> Ints:
    used = np.zeros(problem.supply.bound.shape, dtype=np.int64)
    nodes = problem.library.nodes[settled.template].astype(np.int64) * settled.count[:, None]
    np.add.at(used.T, settled.group, nodes)
    return used


def mean_prices(problem: AllocationProblem, settled: Settled) -> Floats:
    """(C, G) $/h that one node of a cell costs on average at the offers used."""
    supply = problem.supply
    paid, nodes = np.zeros(supply.bound.shape), np.zeros(supply.bound.shape)
    for o in np.flatnonzero(settled.offers > 0):
        cell = supply.offer_config[o], supply.offer_group[o]
        paid[cell] += settled.offers[o] * supply.offers[o].usd_per_hour
        nodes[cell] += settled.offers[o]
    return np.where(nodes > 0, paid / np.where(nodes > 0, nodes, 1.0), supply.price)


def _units_per_instance(
    problem: AllocationProblem, settled: Settled, template: int, group: int, count: int
) -> dict[str, float]:
    library, columns = problem.library, problem.columns
    units: dict[str, float] = {}
    for point, instances in settled.mixtures[template * len(problem.supply.groups) + group].items():
        for entry in range(columns.entry_start[point], columns.entry_start[point + 1]):
            name = library.classes[library.entry_class[entry]].id
            units[name] = units.get(name, 0.0) + instances / count * float(library.entry_units_per_s[entry])
    return units


def unmet_demand(problem: AllocationProblem, settled: Settled) -> dict[str, float]:
    """Requests per second by demand key."""
    unmet: dict[str, float] = {}
    for demand, share in zip(problem.routing.demands, settled.unmet, strict=True):
        if share > LEAST_UNMET:
            unmet[demand.key] = unmet.get(demand.key, 0.0) + float(min(share, 1.0)) * demand.requests_per_s
    return unmet


def flows(problem: AllocationProblem, settled: Settled) -> tuple[Flow, ...]:
    """Return what each route carries by the zones of its legs; together exactly the demand that is not unmet."""
    routing = problem.routing
    placed = [(tree, *placement) for tree in routing.trees for placement in tree.placements(settled.hops, LEAST_FLOW)]
    carried = np.zeros(len(routing.demands))
    for tree, _, _, share in placed:
        carried[tree.demand] += share
    due = 1.0 - np.where(settled.unmet > LEAST_UNMET, np.minimum(settled.unmet, 1.0), 0.0)
    rows = []
    for tree, places, hops, share in placed:
        exact = float(share * due[tree.demand] / carried[tree.demand])
        if exact > 0:
            rate = exact * routing.demands[tree.demand].requests_per_s
            usd = exact * sum(routing.hops[hop].usd_per_hour for hop in hops)
            rows.append(Flow(tree.route.id, tuple(routing.places[p] for p in places), rate, usd))
    return tuple(rows)


def make_plan(problem: AllocationProblem, outcome: SearchOutcome, settled: Settled, policy: str) -> Plan:
    """The plan without an id. Its reasons are the minima of replicas that supply cannot give; others are explained."""
    snapshot, columns = problem.snapshot, problem.columns
    offers, instances = planned_offers(problem, settled), planned_instances(problem, settled)
    unmet = unmet_demand(problem, settled)
    moved = flows(problem, settled)
    rent = sum(o.nodes * o.usd_per_hour for o in offers)
    disks = float(columns.disks(settled.template, settled.group) @ settled.count)
    traffic = sum(f.traffic_usd_per_hour for f in moved)
    running = np.array([i.running for i in instances], dtype=np.float64)
    new = settled.count - running
    factor = snapshot.settings.init_factor + columns.more_init[settled.template]
    init = float((factor * columns.rent(settled.template, settled.group)) @ new)
    risk = float(columns.risk(settled.template, settled.group) @ settled.count)
    usd = rent + disks + traffic
    objective = usd + init + risk
    bound = max(0.0, min(outcome.bound, objective))
    gap = (objective - bound) / objective if objective > 0 else 0.0
    within = gap <= snapshot.settings.limits.gap * (1 + 1e-9)
    return Plan(
        "", snapshot.version, snapshot.library_version, policy, instances, offers, moved, usd, rent,
        traffic, init, risk, unmet, objective, bound, gap, 0.0,
        "partial" if unmet else "optimal" if within else "feasible",
        duals(problem, outcome), tuple(replica_shortages(problem, settled)),
        outcome.statistics | {"timed_out": float(outcome.timed_out)}, disks_usd_per_hour=disks,
    )  # fmt: skip


def replica_shortages(problem: AllocationProblem, settled: Settled) -> Iterator[Reason]:
    """A reason for every work class with fewer instances than `guardrails.replicas` asks for."""
    served = problem.columns.served(settled.template)
    for position, k in enumerate(problem.routing.classes):
        name = problem.library.classes[k].id
        bounds = problem.snapshot.settings.guardrails.replicas.get(name)
        have = int(settled.count @ served[:, position])
        if bounds is not None and have < bounds.min:
            text = f"{name}: supply allows {have} of the {bounds.min} instances that replicas.min asks for"
            yield Reason("replicas", text, name)


def duals(problem: AllocationProblem, outcome: SearchOutcome) -> dict[str, float]:
    """Shadow prices of the relaxation by row name, nonzero ones.

    `offer/…` $/h per node (≤ 0: one more would save), `pool/…` per unit of the pool, `demand/…` per request/s,
    `class/…` per unit/s of capacity in a place, `budget` per $/h; others per share of the class's peak load.
    """
    frame, routing, supply = problem.frame, problem.routing, problem.supply
    vertex = outcome.relaxed.vertex
    per = {f"demand/{d.key}": d.requests_per_s for d in routing.demands}
    library = problem.library
    for k, peak in zip(routing.classes, routing.peak, strict=True):
        name = library.classes[k].id
        per[f"class/{name}"] = peak
        per.update({f"class/{name}@{place}": peak for place in routing.places})
    out = {}
    row_dual = vertex.row_dual.copy()
    # A hop's bound of the whole demand may carry part of the price: what the cheapest placement costs is all of it.
    row_dual[frame.demand_rows] = np.inf
    for tree in routing.trees:
        row, rest = frame.demand_rows[tree.demand], tree.by_edge(vertex.reduced_cost[frame.hop_variables])
        row_dual[row] = min(row_dual[row], vertex.row_dual[row] + float(tree.least(rest).min()))
    row_dual[np.isinf(row_dual)] = 0.0
    for name, dual in zip(frame.row_names, row_dual, strict=True):
        if abs(dual) > LEAST_DUAL and not name.startswith(("running/", "nodes/", "unmet/", "balance/")):
            out[name] = float(dual / per.get(name, 1.0))
    for o in np.flatnonzero(frame.offer_variables >= 0):
        reduced = vertex.reduced_cost[frame.offer_variables[o]]
        if reduced < -LEAST_DUAL:
            out[f"offer/{supply.offers[o].key}"] = float(reduced)
    return out


def with_id(plan: Plan) -> Plan:
    """The plan under the hash (128 bits of BLAKE2b) of what it says, timing and statistics left out."""
    content = replace(plan, id="", solve_s=0.0, statistics={})
    return replace(plan, id=hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).hexdigest())
