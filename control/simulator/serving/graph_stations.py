"""Executors of any-to-any models as stations: one for each work class, with the part of the executor's time that the
plan has for it.

A station's lanes are the requests that are served at once at the operating point, as far as its part of the time goes:
each of them stays as long as there. Parts do not help each other out, and a request that is alone is no faster.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from control.diff.target import Target
from control.fleet.routing import routed_route
from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.fleet_timeline import InstanceLife
from control.simulator.serving.zoneless_flows import anywhere
from policies.routing import BY_ID
from policies.routing_table import RoutedInstance, RoutedModel
from templates_lib.apps.app import serving_id
from templates_lib.apps.app_work import AppWork, Replica
from templates_lib.cells.division import LEAST, divided
from templates_lib.cost.estimated import usable_bytes_per_s
from templates_lib.sources.placement_kinds import gpu_executors
from templates_lib.values.plan import Plan
from templates_lib.values.work import Route


def executor_lives(name: str, wanted: Target, work: AppWork) -> Iterator[InstanceLife]:
    """Yield a life for each work class of each executor of an instance, as far as the plan has work for it. Raises
    ValueError for a template that the app's nodes do not make (any more)."""
    (config,) = wanted.template.nodes
    node = next((each for each in work.nodes if each.id == config), None)
    executors = gpu_executors(wanted.template)
    made = {(r.option.components, r.option.gpus): r for r in (work.replicas(node) if node else ())}
    replicas = [(made.get((each.components, each.gpus)), len(each.devices)) for each in executors]
    if node is None or not all(replica for replica, _ in replicas):
        raise ValueError(
            f"template {wanted.template.id} of {wanted.model} is not one of its app's any more: plan again"
        )
    known = [(replica, count) for replica, count in replicas if replica is not None]
    shares = divided(wanted.units_per_s, [_rates(replica, count) for replica, count in known])
    for number, ((replica, count), own) in enumerate(zip(known, shares, strict=True)):
        if not own:
            continue
        rates, usd = _rates(replica, count), wanted.usd_per_hour * replica.option.gpus * count / node.gpu_count
        busy = {each: units / rates[each] for each, units in own.items()}
        for each, time in busy.items():
            share = time / sum(busy.values())
            lanes = ceil(count * work.at_once(replica, each) * share - LEAST)
            station = BatchModel(({each: share * rates[each]},), lanes=lanes, bytes_per_s=usable_bytes_per_s(node))
            yield InstanceLife(
                f"{name}/{number}/{each}", wanted.model, "+".join(replica.option.components), wanted.zone, station,
                usd_per_hour=share * usd, units_per_s={each: own[each]},
            )  # fmt: skip


def routed_app(
    work: AppWork, lives: Iterable[InstanceLife], plan: Plan, routes: Sequence[Route]
) -> Iterator[RoutedModel]:
    """Yield the table of each request type, with the flows of the plan."""
    units = {each.id: each.unit for each in work.classes}
    members = [RoutedInstance(life.id, life.zone, life.units_per_s, None, life.usd_per_hour) for life in lives]
    for kind in work.app.types:
        own = [route for route in routes if (route.app, route.request_type) == (work.app.name, kind.name)]
        used = {flow.route for flow in plan.flows if flow.requests_per_s > 0}
        routed = tuple(routed_route(route, units, plan.flows) for route in own if route.id in used)
        if not routed:
            continue
        classes = {leg.work_class for route in routed for leg in route.legs}
        able = tuple(member for member in members if not classes.isdisjoint(member.units_per_s))
        model = RoutedModel(serving_id(work.app.name, kind.name), routed, able, BY_ID, None)
        yield anywhere(model, plan.flows)


def _rates(replica: Replica, count: int) -> dict[str, float]:
    return {name: count * rate for name, rate in replica.units_per_s.items()}
