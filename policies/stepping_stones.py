"""Cheap instances that came lately and are not enough yet to replace a dear one: they are kept while more may come.

A market that comes back gives a node here and two there, and refuses the rest. The cheapest plan of that moment gives
the one node back, because it alone frees no dear instance: minutes later the same is tried again, and while the market
gives one at a time the fleet never leaves its stop-gap. So what is new or on its way is kept beside the dear instance
that it is a step away from, as long as a move has to pay back. Whatever it serves beyond the demand is less than one
dear instance serves, or the plan would have let that one go.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from templates_lib.values.engine_set import engine_set
from templates_lib.values.instance import Instance
from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.plan import Plan, PlannedInstance, PlannedOffer
from templates_lib.values.snapshot import Snapshot

TIMES_DEARER = 2.0
"""Ratio of prices per unit from which a replacement counts as a stepping stone: what is a little cheaper is no step
towards anything."""
READY = "ready"
_ROUNDING = 1e-9

_Column = tuple[str, str, Market]


def with_stepping_stones(
    plan: Plan, snapshot: Snapshot, library: Library, horizon_minutes: float
) -> tuple[Plan, tuple[Instance, ...]]:
    """`plan` with those that it should not give back yet, and which they are. They are ready for `horizon_minutes` at
    most, cost at most half of what something else of the plan that runs takes for the same work, and break no limit.
    The plan's id, objective and bound are left as they are."""
    there = Counter(_column(i) for i in snapshot.staying())
    spare = there - Counter({(p.template_id, p.zone, p.market): p.count for p in plan.instances})
    dear = [p for p in plan.instances if min(p.count, there[p.template_id, p.zone, p.market]) > 0]
    stones: list[Instance] = []
    for instance in sorted(snapshot.staying(), key=lambda i: i.id):
        if not spare[_column(instance)] or not _is_young(instance, snapshot.now, horizon_minutes):
            continue
        one = _planned(instance, snapshot, library)
        with_one = _added(plan, one, instance, snapshot)
        if any(_is_dearer(each, one) for each in dear) and _fits(with_one, snapshot):
            plan, spare = with_one, spare - Counter([_column(instance)])
            stones.append(instance)
    return plan, tuple(stones)


def _column(instance: Instance) -> _Column:
    return instance.template_id, instance.zone, instance.market


def _is_young(instance: Instance, now: str, horizon_minutes: float) -> bool:
    if instance.state != READY:
        return True
    if not instance.state_since:
        return False
    return datetime.fromisoformat(now) - datetime.fromisoformat(instance.state_since) < timedelta(
        minutes=horizon_minutes
    )


def _planned(instance: Instance, snapshot: Snapshot, library: Library) -> PlannedInstance:
    """The instance as a row of a plan, at the prices of now and its first operating point; without work if its
    template is not in the library any more."""
    sold = _offers(snapshot)
    nodes = Counter(sold[node.offer].node_config for node in instance.nodes)
    at = np.flatnonzero(library.ids == instance.template_id.encode())
    point = np.searchsorted(library.point_template, at)
    entries = np.flatnonzero(np.isin(library.entry_point, point))
    classes = [library.classes[k] for k in library.entry_class[entries]]
    units = dict(zip((c.id for c in classes), library.entry_units_per_s[entries].tolist(), strict=True))
    model, phase = (
        "+".join(dict.fromkeys(names)) for names in ((c.component for c in classes), (c.phase for c in classes))
    )
    disks = snapshot.charged_disks
    engines = engine_set(library.engine_of(int(template)) for template in at)
    gib = disks.node_gib((c.component for c in classes), engines)
    usd = _rent(instance, sold) + disks.usd_per_hour(instance.zone, gib, len(instance.nodes))
    return PlannedInstance(
        instance.template_id, model, phase, instance.zone, instance.market, 1, 1, dict(nodes), units, usd,
        disk_gib=gib, engines=engines,
    )  # fmt: skip


def _rent(instance: Instance, sold: Mapping[str, Offer]) -> float:
    return sum(sold[node.offer].usd_per_hour for node in instance.nodes)


def _offers(snapshot: Snapshot) -> dict[str, Offer]:
    return {offer.key: offer for offer in snapshot.offers}


def _is_dearer(other: PlannedInstance, one: PlannedInstance) -> bool:
    """Tell whether `other` does the work of `one` at a multiple of its price."""
    each = other.usd_per_hour / other.count
    return bool(one.units_per_s) and all(
        units * each >= TIMES_DEARER * one.usd_per_hour * other.units_per_s.get(name, 0.0) > 0
        for name, units in one.units_per_s.items()
    )


def _added(plan: Plan, one: PlannedInstance, instance: Instance, snapshot: Snapshot) -> Plan:
    """`plan` with one more of the instances that run."""
    place, usd = (one.template_id, one.zone, one.market), one.usd_per_hour
    rest = tuple(p for p in plan.instances if (p.template_id, p.zone, p.market) != place)
    same = next((p for p in plan.instances if (p.template_id, p.zone, p.market) == place), None)
    if same is not None:
        one = replace(same, count=same.count + 1, running=same.running + 1, usd_per_hour=same.usd_per_hour + usd)
    sold, held = _offers(snapshot), snapshot.held_nodes()
    nodes = plan.nodes() + Counter(node.offer for node in instance.nodes)
    offers = tuple(
        PlannedOffer(key, sold[key].node_config, n, min(n, held[key]), sold[key].usd_per_hour)
        for key, n in sorted(nodes.items())
    )
    often = sum(sold[node.offer].interruptions_per_hour for node in instance.nodes)
    rent = _rent(instance, sold)
    risk = often * usd * snapshot.settings.restart_hours if instance.market is Market.SPOT else 0.0
    return replace(
        plan,
        instances=(*rest, one),
        offers=offers,
        usd_per_hour=plan.usd_per_hour + usd,
        rent_usd_per_hour=plan.rent_usd_per_hour + rent,
        disks_usd_per_hour=plan.disks_usd_per_hour + usd - rent,
        spot_risk_usd_per_hour=plan.spot_risk_usd_per_hour + risk,
    )


def _fits(plan: Plan, snapshot: Snapshot) -> bool:
    return not any(_broken(plan, snapshot))


def _broken(plan: Plan, snapshot: Snapshot) -> Iterator[bool]:
    """Limits that one instance more may break."""
    limits = snapshot.settings.guardrails
    if limits.max_usd_per_hour is not None:
        yield plan.usd_per_hour > limits.max_usd_per_hour + _ROUNDING
    yield not snapshot.gives(plan.nodes())
    for name, bounds in limits.replicas.items():
        count = sum(p.count for p in plan.instances if name in p.units_per_s)
        yield bounds.max is not None and count > bounds.max
