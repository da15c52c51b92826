"""Demand, flows, traffic and the capacity that must cover them in every zone."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from control.checker.case import Case
from control.checker.violation import Violation, same, slack
from templates_lib.values.plan import Flow, PlannedInstance
from templates_lib.values.settings import Mode
from templates_lib.values.work import Route

Place = tuple[str, str]
"""(work class id, zone id; the zone is empty in mode `paper`)."""


def violations(case: Case) -> Iterator[Violation]:
    for index, flow in enumerate(case.plan.flows):
        yield from _flow(case, f"flows[{index}]", flow)
    traffic = sum(f.traffic_usd_per_hour for f in case.plan.flows)
    if not same(traffic, case.plan.traffic_usd_per_hour):
        found = f"{case.plan.traffic_usd_per_hour}"
        yield Violation("traffic", "traffic_usd_per_hour", f"{traffic} (sum over the flows)", found)
    yield from _demand(case)
    yield from _capacity(case)


def load_of(case: Case) -> dict[Place, float]:
    """Units per second that the flows ask of each class in each zone."""
    load: defaultdict[Place, float] = defaultdict(float)
    for flow in case.plan.flows:
        route = case.routes.get(flow.route)
        if route is not None and len(flow.zones) == len(route.legs):
            for leg, zone in zip(route.legs, flow.zones, strict=True):
                load[leg.work_class, zone] += flow.requests_per_s * leg.units_per_request
    return dict(load)


def usable_capacity(case: Case, instances: Iterable[PlannedInstance]) -> dict[Place, float]:
    """Units per second that these instances may be asked for, utilisation cap applied."""
    paper = case.snapshot.settings.mode is Mode.PAPER
    usable: defaultdict[Place, float] = defaultdict(float)
    for planned in instances:
        for work_class, units in planned.units_per_s.items():
            place = (work_class, "" if paper else planned.zone)
            cap = case.snapshot.settings.cap(work_class, planned.template_id, planned.nodes)
            usable[place] += cap * planned.count * units
    return dict(usable)


def _flow(case: Case, where: str, flow: Flow) -> Iterator[Violation]:
    route = case.routes.get(flow.route)
    if route is None:
        yield Violation("flow", f"{where}.route", "a route of the snapshot", flow.route)
        return
    if len(flow.zones) != len(route.legs):
        yield Violation("flow", f"{where}.zones", f"one zone for each of {len(route.legs)} legs", f"{flow.zones}")
        return
    if flow.requests_per_s < 0:
        yield Violation("flow", f"{where}.requests_per_s", "at least 0", f"{flow.requests_per_s}")
    if case.snapshot.settings.mode is Mode.PAPER and any(flow.zones):
        yield Violation("flow", f"{where}.zones", "no zones in mode paper", f"{flow.zones}")
    expected = _traffic_usd_per_hour(case, route, flow)
    if math.isinf(expected):
        yield Violation("crossing", where, "a traffic price for every crossing", " → ".join(flow.zones))
    elif not same(expected, flow.traffic_usd_per_hour):
        yield Violation("traffic", f"{where}.traffic_usd_per_hour", f"{expected}", f"{flow.traffic_usd_per_hour}")


def _traffic_usd_per_hour(case: Case, route: Route, flow: Flow) -> float:
    """Requests/s · bytes · $/GB over the edges that cross zones; infinite where a crossing has no price."""
    price = {(t.source, t.target): t.usd_per_gb for t in case.snapshot.traffic}
    usd_per_request = 0.0
    for edge in route.edges:
        ends = flow.zones[edge.source], flow.zones[edge.target]
        if ends[0] != ends[1]:
            usd_per_request += edge.bytes_per_request / 1e9 * price.get(ends, math.inf)
    return flow.requests_per_s * 3600 * usd_per_request if usd_per_request else 0.0


def _demand(case: Case) -> Iterator[Violation]:
    served: defaultdict[str, float] = defaultdict(float)
    for flow in case.plan.flows:
        route = case.routes.get(flow.route)
        if route is not None:
            served[f"{route.app}/{route.request_type}"] += flow.requests_per_s
    wanted: defaultdict[str, float] = defaultdict(float)
    for demand in case.snapshot.demand:
        wanted[demand.key] += demand.requests_per_s
    for key in sorted(wanted.keys() | served.keys() | case.plan.unmet.keys()):
        unmet = case.plan.unmet.get(key, 0.0)
        if not -slack() <= unmet <= wanted[key] + slack(wanted[key]):
            yield Violation("unmet", key, f"0 to {wanted[key]} requests/s", f"{unmet}")
        if not same(served[key] + unmet, wanted[key]):
            expected = f"{wanted[key]} requests/s = flows + unmet"
            yield Violation("demand", key, expected, f"{served[key]} + {unmet}")


def _capacity(case: Case) -> Iterator[Violation]:
    """utilisation_cap · capacity ≥ flow · units per request, by class and zone (mode `paper`: by class)."""
    usable = usable_capacity(case, case.plan.instances)
    for place, load in sorted(load_of(case).items()):
        capacity = usable.get(place, 0.0)
        if load > capacity + slack(load):
            where = f"{place[0]} in {place[1]}" if place[1] else place[0]
            yield Violation("capacity", where, f"at least {load} units/s for the flows", f"{capacity}")
