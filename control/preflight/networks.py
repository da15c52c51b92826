"""Ways between the nodes of a plan, and from gateways to them: which networks reach each other."""

from collections.abc import Iterator

from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned, cloud_of
from templates_lib.sources.placement_kinds import executors_of
from templates_lib.values.clouds import LOCAL, Span, cloud_kind
from templates_lib.values.plan import Flow, PlannedInstance
from templates_lib.values.reach import Reach, networks_of
from templates_lib.values.work import Route

FLOWS, GATEWAYS = "flows.reach", "gateways.reach"


def of_flows(planned: Planned) -> Iterator[Finding]:
    """Yield a finding for each route whose KV caches would cross networks, one for all that cross none, and one for
    each instance whose nodes would not reach each other."""
    networks = networks_of(planned.world.quotes.offers)
    reach = planned.world.fleet.sources.reach
    routes = {route.id: route for served in planned.world.recipe.served for route in served.routes()}
    crossing: dict[str, set[tuple[str, str]]] = {}
    for flow in planned.plan.flows:
        if (route := routes.get(flow.route)) is not None:
            crossing.setdefault(flow.route, set()).update(_crossed(planned, flow, route, networks, reach))
    for route_id, pairs in sorted(crossing.items()):
        if missing := sorted(pair for pair in pairs if not reach.joins(*pair)):
            yield Finding(
                FLOWS, route_id, Status.FAIL, f"its KV caches would go between {_named(missing)}, {_mend(missing)}"
            )
        elif pairs:
            what = (
                f"its KV caches go between {_named(sorted(pairs))}, which `network.peered` says are joined: whether "
                "they are shows with the first hand-over"
            )
            yield Finding(FLOWS, route_id, Status.UNKNOWN, what)
    inside = [route for route, pairs in crossing.items() if not pairs]
    if inside:
        yield Finding(FLOWS, f"{len(inside)} routes", Status.PASS, "their KV caches stay inside one private network")
    for zone in sorted({each.zone for each in planned.plan.instances if sum(each.nodes.values()) > 1}):
        if cloud_kind(zone.partition("/")[0]).span is Span.NONE:
            what = (
                "nodes of one instance would exchange activations, and reach no other there: plan whole models a node"
            )
            yield Finding(FLOWS, f"instances of several nodes in {zone}", Status.FAIL, what)


def of_gateways(planned: Planned) -> Iterator[Finding]:
    """Yield what is known of the way from gateways to the nodes of the plan: to private addresses, or, where nodes are
    in no network, to the ports that their cloud publishes."""
    by_zone, reach = networks_of(planned.world.quotes.offers), planned.world.fleet.sources.reach
    zones = {each.zone for each in planned.plan.instances}
    networks = sorted({by_zone[zone] for zone in zones if zone in by_zone} - {LOCAL})
    closed = [each for each in networks if cloud_kind(each.partition("/")[0]).span is Span.NONE]
    yield from (_to_published(planned, each) for each in closed)
    rest = [each for each in networks if each not in closed]
    if overlaid := [each for each in rest if reach.overlays(each.partition("/")[0])]:
        what = "gateways on the control plane's machine reach them over `network.overlay`"
        yield Finding(GATEWAYS, ", ".join(overlaid), Status.PASS, what)
        rest = [each for each in rest if each not in overlaid]
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


def _to_published(planned: Planned, network: str) -> Finding:
    """The way to nodes of a cloud without networks between them."""
    cloud = network.partition("/")[0]
    ports = cloud_kind(cloud).published_ports
    if not ports:
        what = "no other machine reaches its nodes by their address, so that no request gets there: plan other clouds"
        return Finding(GATEWAYS, network, Status.FAIL, what)
    there = (each for each in planned.plan.instances if cloud_of(each) == cloud)
    if (most := max((len(executors_of(each) or ()) for each in there), default=0)) > len(ports):
        what = f"instances there have {most} executors, and {len(ports)} ports of a node are published: plan them apart"
        return Finding(GATEWAYS, network, Status.FAIL, what)
    what = (
        f"its nodes are launched with ports {ports[0]} to {ports[-1]} published, at public addresses that gateways "
        "anywhere reach; a node that gets none ends, and says so"
    )
    return Finding(GATEWAYS, network, Status.PASS, what)


def _crossed(
    planned: Planned, flow: Flow, route: Route, networks: dict[str, str], reach: Reach
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of networks between which bytes of the flow go, and a network twice where its nodes do not reach
    each other. Without zones (mode `paper`) any instance feeds any other."""
    for edge in route.edges:
        ends = [
            {flow.zones[leg]} if flow.zones[leg] else _zones(planned.plan.instances, route.legs[leg].work_class)
            for leg in (edge.source, edge.target)
        ]
        pairs = ((networks.get(a), networks.get(b)) for a in ends[0] for b in ends[1])
        known = ((a, b) for a, b in pairs if a is not None and b is not None)
        yield from {(min(a, b), max(a, b)) for a, b in known if a != b or not reach.joins(a, b)}


def _zones(instances: tuple[PlannedInstance, ...], work_class: str) -> set[str]:
    return {each.zone for each in instances if work_class in each.units_per_s}


def _named(pairs: list[tuple[str, str]]) -> str:
    return "; ".join(f"{a} and {b}" if a != b else f"two nodes of {a}" for a, b in pairs)


def _mend(missing: list[tuple[str, str]]) -> str:
    """Say what is wrong with pairs of networks, and what to do."""
    if any(cloud_kind(each.partition("/")[0]).span is Span.NONE for pair in missing for each in pair):
        return (
            "where no node reaches another: have prompts and answers on one node (`disaggregated: false`, "
            "`aggregated: true`), or plan other clouds"
        )
    return (
        "whose nodes do not reach each other: plan in one network (`policy.mode: zones`), or join them and name them "
        "in `network.peered`"
    )
