"""A plan that was carried out, and what may change under the fleet that then runs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from templates_lib.values.instance import Instance, Node
from templates_lib.values.plan import Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot


def carried_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The plan's instances run; what they hold is no longer on offer."""
    left = plan.nodes()
    instances: list[Instance] = []
    for planned in plan.instances:
        for _ in range(planned.count):
            nodes = tuple(
                Node(f"node-{len(instances)}-{i}", key) for i, key in enumerate(_rent(snapshot, planned, left))
            )
            name = f"instance-{len(instances)}"
            instances.append(Instance(name, planned.template_id, planned.zone, planned.market, "ready", nodes))
    held = plan.nodes()
    offers = tuple(replace(o, available_count=(o.available_count or 0) - held.get(o.key, 0)) for o in snapshot.offers)
    return replace(snapshot, offers=offers, instances=tuple(instances))


def _rent(snapshot: Snapshot, planned: PlannedInstance, left: Counter[str]) -> list[str]:
    """Offer keys of one instance's nodes, taken from what the plan rents."""
    keys = []
    place = planned.zone, planned.market
    for config, count in planned.nodes.items():
        here = [o.key for o in snapshot.offers if o.node_config == config and (o.zone_id, o.market) == place]
        for _ in range(count):
            key = next(k for k in here if left[k] > 0)
            left[key] -= 1
            keys.append(key)
    return keys


def _with_demand(snapshot: Snapshot, factor: float) -> Snapshot:
    demand = tuple(replace(d, requests_per_s=factor * d.requests_per_s) for d in snapshot.demand)
    return replace(snapshot, demand=demand)


def _dearest(snapshot: Snapshot) -> str:
    """The offer on which the fleet spends most."""
    price = {o.key: o.usd_per_hour for o in snapshot.offers}
    spent = dict.fromkeys(sorted(price), 0.0)
    for instance in snapshot.instances:
        for node in instance.nodes:
            spent[node.offer] += price[node.offer]
    return max(spent, key=lambda key: spent[key])


def _dearer(snapshot: Snapshot) -> Snapshot:
    at = _dearest(snapshot)
    offers = [replace(o, usd_per_hour=1.3 * o.usd_per_hour) if o.key == at else o for o in snapshot.offers]
    return replace(snapshot, offers=tuple(offers))


def _sold_out(snapshot: Snapshot) -> Snapshot:
    """The offer sells no more, and the instances with a node of it are gone."""
    at = _dearest(snapshot)
    offers = [replace(o, available_count=0) if o.key == at else o for o in snapshot.offers]
    kept = [i for i in snapshot.instances if all(node.offer != at for node in i.nodes)]
    return replace(snapshot, offers=tuple(offers), instances=tuple(kept))


CHANGES: dict[str, Callable[[Snapshot], Snapshot]] = {
    "+20 % demand": lambda s: _with_demand(s, 1.2),
    "-20 % demand": lambda s: _with_demand(s, 0.8),
    "one price +30 %": _dearer,
    "one offer sold out": _sold_out,
}
