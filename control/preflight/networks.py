"""Ways between the nodes of a plan, and from gateways to them: which networks reach each other."""

from collections.abc import Iterator

from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned
from templates_lib.values.clouds import LOCAL, Span, cloud_kind
from templates_lib.values.plan import Flow, PlannedInstance
from templates_lib.values.reach import networks_of
from templates_lib.values.work import Route

FLOWS, GATEWAYS = "flows.reach", "gateways.reach"


def of_flows(planned: Planned) -> Iterator[Finding]:
    """Yield a finding for each route whose KV caches would cross networks, and one for all that cross none."""
    networks = networks_of(planned.world.quotes.offers)
    reach = planned.world.fleet.sources.reach
    routes = {route.id: route for served in planned.world.recipe.served for route in served.routes()}
    crossing: dict[str, set[tuple[str, str]]] = {}
    for flow in planned.plan.flows:
        if (route := routes.get(flow.route)) is not None:
            crossing.setdefault(flow.route, set()).update(_crossed(planned, flow, route, networks))
    for route_id, pairs in sorted(crossing.items()):
        if missing := sorted(pair for pair in pairs if not reach.joins(*pair)):
            what = (
                f"its KV caches would go between {_named(missing)}, whose nodes do not reach each other: plan in one "
                "network (`policy.mode: zones`), or join them and name them in `network.peered`"
            )
            yield Finding(FLOWS, route_id, Status.FAIL, what)
        elif pairs:
            what = (
                f"its KV caches go between {_named(sorted(pairs))}, which `network.peered` says are joined: whether "
                "they are shows with the first hand-over"
            )
            yield Finding(FLOWS, route_id, Status.UNKNOWN, what)
    inside = [route for route, pairs in crossing.items() if not pairs]
    if inside:
        yield Finding(FLOWS, f"{len(inside)} routes", Status.PASS, "their KV caches stay inside one private network")


def of_gateways(planned: Planned) -> Iterator[Finding]:
    """Yield what is known of the way from gateways to the nodes of the plan, which have private addresses only."""
    by_zone, reach = networks_of(planned.world.quotes.offers), planned.world.fleet.sources.reach
    zones = {each.zone for each in planned.plan.instances}
    networks = sorted({by_zone[zone] for zone in zones if zone in by_zone} - {LOCAL})
    closed = [each for each in networks if cloud_kind(each.partition("/")[0]).span is Span.NONE]
    for each in closed:
        what = "no other machine reaches its nodes by their address, so that no request gets there: plan other clouds"
        yield Finding(GATEWAYS, each, Status.FAIL, what)
    rest = [each for each in networks if each not in closed]
    if not rest:
        return
    if away := [each for each in rest if not reach.serves(each)]:
        what = f"gateways in {reach.gateways} do not reach it: join the two, and name them in `network.peered`"
        yield from (Finding(GATEWAYS, each, Status.FAIL, what) for each in away)
    elif reach.gateways:
        what = f"gateways in {reach.gateways} reach them, by the file"
        yield Finding(GATEWAYS, ", ".join(rest), Status.PASS, what)
    else:
        what = "nobody says where gateways are: set `network.gateways` to the network that they are in"
        yield Finding(GATEWAYS, ", ".join(rest), Status.UNKNOWN, what)


def _crossed(planned: Planned, flow: Flow, route: Route, networks: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of networks between which bytes of the flow go. Without zones (mode `paper`) any instance feeds
    any other."""
    for edge in route.edges:
        ends = [
            {flow.zones[leg]} if flow.zones[leg] else _zones(planned.plan.instances, route.legs[leg].work_class)
            for leg in (edge.source, edge.target)
        ]
        pairs = ((networks.get(a), networks.get(b)) for a in ends[0] for b in ends[1])
        yield from {(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None and a != b}


def _zones(instances: tuple[PlannedInstance, ...], work_class: str) -> set[str]:
    return {each.zone for each in instances if work_class in each.units_per_s}


def _named(pairs: list[tuple[str, str]]) -> str:
    return "; ".join(f"{a} and {b}" for a, b in pairs)
