"""A plan from instance counts that a heuristic fixed: priced as every plan is, without a bound."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from templates_lib.values.disks import Disks
from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.plan import Flow, Plan, PlannedInstance, PlannedOffer
from templates_lib.values.snapshot import Snapshot

UNMET_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Count:
    template: int
    """Index into the library; a template of one operating point."""
    zone: str
    market: Market
    count: int


def plan_of_counts(
    snapshot: Snapshot,
    library: Library,
    counts: Iterable[Count],
    nodes_by_offer: Mapping[str, int],
    flows: tuple[Flow, ...],
    *,
    policy: str,
) -> Plan:
    """Price `counts` at the offers that `nodes_by_offer` names (which must add up to the counts' nodes).

    A heuristic proves nothing: `bound` is 0 and `gap` 1.
    """
    offers = {o.key: o for o in snapshot.offers}
    prices = _mean_prices(offers, nodes_by_offer)
    running = Counter((i.template_id, i.zone, i.market) for i in snapshot.staying())
    instances = tuple(
        _planned(snapshot.charged_disks, library, c, prices, running)
        for c in sorted(counts, key=lambda c: (library.template_id(c.template), c.zone, c.market.value))
    )
    held = snapshot.held_nodes()
    rented = tuple(
        PlannedOffer(key, offers[key].node_config, n, min(held[key], n), offers[key].usd_per_hour)
        for key, n in sorted(nodes_by_offer.items())
        if n
    )
    rent = sum(o.nodes * o.usd_per_hour for o in rented)
    charged = snapshot.charged_disks
    disks = sum(charged.usd_per_hour(i.zone, i.disk_gib, i.count * sum(i.nodes.values())) for i in instances)
    traffic = sum(f.traffic_usd_per_hour for f in flows)
    init = sum(
        snapshot.settings.init_factor_of(i.engines) * i.usd_per_hour * max(i.count - i.running, 0) / i.count
        for i in instances
    )
    risk = _spot_risk(snapshot, instances, offers, nodes_by_offer)
    plan = Plan(
        id="",
        snapshot_version=snapshot.version,
        library_version=library.version,
        policy=policy,
        instances=instances,
        offers=rented,
        flows=flows,
        usd_per_hour=rent + disks + traffic,
        rent_usd_per_hour=rent,
        traffic_usd_per_hour=traffic,
        init_usd=init,
        spot_risk_usd_per_hour=risk,
        unmet=(unmet := _unmet(snapshot, flows)),
        objective=rent + disks + traffic + init + risk,
        bound=0.0,
        gap=1.0,
        solve_s=0.0,
        status="partial" if unmet else "feasible",
        disks_usd_per_hour=disks,
    )
    return replace(plan, id=hashlib.blake2b(msgspec.json.encode(plan), digest_size=16).hexdigest())


def _mean_prices(
    offers: Mapping[str, Offer], nodes_by_offer: Mapping[str, int]
) -> dict[tuple[str, str, Market], float]:
    """Mean price of one node at each (configuration, zone, market): several offers may have been drawn on."""
    usd: defaultdict[tuple[str, str, Market], float] = defaultdict(float)
    nodes: Counter[tuple[str, str, Market]] = Counter()
    for key, n in nodes_by_offer.items():
        place = (offers[key].node_config, offers[key].zone_id, offers[key].market)
        usd[place] += n * offers[key].usd_per_hour
        nodes[place] += n
    return {place: usd[place] / n for place, n in nodes.items() if n}


def _planned(
    disks: Disks,
    library: Library,
    count: Count,
    prices: Mapping[tuple[str, str, Market], float],
    running: Mapping[tuple[str, str, Market], int],
) -> PlannedInstance:
    template_id = library.template_id(count.template)
    row = library.nodes[count.template]
    nodes = {library.configs[c]: int(row[c]) for c in np.flatnonzero(row)}
    entries = np.flatnonzero(library.point_template[library.entry_point] == count.template)
    classes = [library.classes[int(library.entry_class[e])] for e in entries]
    engines = library.engine_of(count.template)
    gib = disks.node_gib((c.component for c in classes), engines)
    usd = sum(n * prices[config, count.zone, count.market] for config, n in nodes.items())
    usd += disks.usd_per_hour(count.zone, gib, sum(nodes.values()))
    return PlannedInstance(
        template_id=template_id,
        model=classes[0].component,
        phase="+".join(sorted({c.phase for c in classes})),
        zone=count.zone,
        market=count.market,
        count=count.count,
        running=min(running.get((template_id, count.zone, count.market), 0), count.count),
        nodes=nodes,
        units_per_s={c.id: float(library.entry_units_per_s[e]) for c, e in zip(classes, entries, strict=True)},
        usd_per_hour=usd * count.count,
        disk_gib=gib,
        engines=engines,
    )


def _spot_risk(
    snapshot: Snapshot,
    instances: Iterable[PlannedInstance],
    offers: Mapping[str, Offer],
    nodes_by_offer: Mapping[str, int],
) -> float:
    """Σ interruptions_per_hour · nodes · restart_hours · instance price, at each place's worst offer that was used."""
    rate: dict[tuple[str, str, Market], float] = {}
    for key, n in nodes_by_offer.items():
        offer = offers[key]
        place = (offer.node_config, offer.zone_id, offer.market)
        if n:
            rate[place] = max(rate.get(place, 0.0), offer.interruptions_per_hour)
    return snapshot.settings.restart_hours * sum(
        sum(n * rate[config, i.zone, i.market] for config, n in i.nodes.items()) * i.usd_per_hour for i in instances
    )


def _unmet(snapshot: Snapshot, flows: Iterable[Flow]) -> dict[str, float]:
    key_of_route = {r.id: f"{r.app}/{r.request_type}" for r in snapshot.routes}
    served: defaultdict[str, float] = defaultdict(float)
    for flow in flows:
        served[key_of_route[flow.route]] += flow.requests_per_s
    missing = {d.key: d.requests_per_s - served[d.key] for d in snapshot.demand}
    return {key: rate for key, rate in missing.items() if rate > UNMET_TOLERANCE * max(1.0, served[key])}
