"""An any-to-any model as a plan serves it: what flows on the edges of its graph, and the load and cost of each
component."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from control.planning.graph_document import GraphDocument, graph_document
from templates_lib.apps.graph_app import GraphApp
from templates_lib.graphs.model_graph import GraphEdge
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.sources.placement_kinds import gpu_executors
from templates_lib.values.plan import Flow, Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Leg, Route


@dataclass(frozen=True, slots=True)
class PlannedPath:
    route: str
    stages: tuple[tuple[str, ...], ...]
    """Components that each executor on the way computes, in order."""
    zones: tuple[str, ...]
    """Zone of each stage; empty strings where the plan knows of none."""
    requests_per_s: float


@dataclass(frozen=True, slots=True)
class PlannedType:
    request_type: str
    share: float
    """Of all requests of the app, 0 to 1."""
    requests_per_s: float
    """Demand that the plan was made for."""
    served_per_s: float
    paths: tuple[PlannedPath, ...]


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """A work class: a component that is computed alone, or components that are computed together for one type."""

    work_class: str
    components: tuple[str, ...]
    units_per_s: float
    """Planned."""
    capacity_per_s: float
    """Units per second that what is rented sustains."""
    load: float | None
    """The first as a share of the second; None: nothing is rented for it."""


@dataclass(frozen=True, slots=True)
class PlannedReplicas:
    """Executors that compute the same components on as many GPUs of the same nodes."""

    components: tuple[str, ...]
    gpus: int
    """Of each."""
    node: str
    """Configuration of the nodes."""
    count: int
    usd_per_hour: float
    """Rent of all. What a node's executors leave idle is charged to them in proportion to their GPUs."""


@dataclass(frozen=True, slots=True)
class PlannedComponent:
    component: str
    requests_per_s: float
    """Requests that visit it."""
    load: float | None
    """Load of the fullest of its work classes; None: it has none."""
    executors: int
    """Executors that compute it, alone or with others."""
    usd_per_hour: float
    """Rent of those that compute nothing else."""
    shared_usd_per_hour: float
    """Rent of those that compute other components, too: it counts for each of them."""


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    source: str
    target: str
    requests_per_s: float
    """Requests that visit both ends."""
    sent_per_s: float
    """Those whose ends are computed by two executors."""
    bytes_per_s: float
    """Sent from executor to executor."""
    zones_bytes_per_s: float
    """Sent from one zone to another."""


@dataclass(frozen=True, slots=True)
class PlannedApp:
    app: str
    graph: GraphDocument
    components: tuple[PlannedComponent, ...]
    edges: tuple[PlannedEdge, ...]
    """In the order of the graph's own."""
    request_types: tuple[PlannedType, ...]
    work: tuple[PlannedWork, ...]
    executors: tuple[PlannedReplicas, ...]
    usd_per_hour: float
    """Rent of its instances."""
    traffic_usd_per_hour: float


@dataclass(frozen=True, slots=True)
class _Sent:
    """A flow of requests along the stages of its route."""

    kind: GraphRequestType
    path: PlannedPath
    flow: Flow
    legs: tuple[Leg, ...]
    stage_of: dict[str, int] = field(default_factory=dict)
    """Component → number of its stage."""


def planned_app(app: GraphApp, plan: Plan | None = None, snapshot: Snapshot | None = None) -> PlannedApp:
    """`plan`: with placements, and the snapshot that it was made of; None: nothing is planned yet, and all figures are
    0."""
    routes = {route.id: route for route in snapshot.routes if route.app == app.name} if snapshot else {}
    sent = list(_sent(app, plan.flows if plan else (), routes))
    instances = [each for each in plan.instances if each.model == app.name] if plan else []
    replicas = tuple(_replicas(instances))
    work = tuple(_work(app, sent, instances))
    asked = {d.request_type: d.requests_per_s for d in snapshot.demand if d.app == app.name} if snapshot else {}
    return PlannedApp(
        app=app.name,
        graph=graph_document(app.graph, ""),
        components=tuple(_component(each.name, sent, work, replicas) for each in app.graph.components),
        edges=tuple(_edge(edge, sent) for edge in app.graph.edges),
        request_types=tuple(_type(kind, asked.get(kind.name, 0.0), sent) for kind in app.types),
        work=work,
        executors=replicas,
        usd_per_hour=sum(each.usd_per_hour for each in instances),
        traffic_usd_per_hour=sum(each.flow.traffic_usd_per_hour for each in sent),
    )


def _sent(app: GraphApp, flows: tuple[Flow, ...], routes: dict[str, Route]) -> Iterator[_Sent]:
    kinds = {kind.name: kind for kind in app.types}
    for flow in flows:
        route = routes.get(flow.route)
        if route is None or route.request_type not in kinds or flow.requests_per_s <= 0:
            continue
        stages = tuple(_components(leg.work_class) for leg in route.legs)
        path = PlannedPath(route.id, stages, flow.zones, flow.requests_per_s)
        stage_of = {name: number for number, names in enumerate(stages) for name in names}
        yield _Sent(kinds[route.request_type], path, flow, route.legs, stage_of)


def _components(work_class: str) -> tuple[str, ...]:
    """Read them from a name such as `vl/vision+language/image-text-to-text` (`AppWork.class_id`)."""
    return tuple(work_class.split("/")[1].split("+"))


def _replicas(instances: list[PlannedInstance]) -> Iterator[PlannedReplicas]:
    found: dict[tuple[tuple[str, ...], int, str], tuple[int, float]] = {}
    for instance in instances:
        executors = gpu_executors(instance)
        used = sum(each.gpus * len(each.devices) for each in executors)
        for each in executors:
            key = each.components, each.gpus, "+".join(instance.nodes)
            count, usd = found.get(key, (0, 0.0))
            own = len(each.devices)
            found[key] = (
                count + own * instance.count, usd + instance.usd_per_hour * own * each.gpus / used
            )  # fmt: skip
    for (components, gpus, node), (count, usd) in sorted(found.items()):
        yield PlannedReplicas(components, gpus, node, count, usd)


def _work(app: GraphApp, sent: list[_Sent], instances: list[PlannedInstance]) -> Iterator[PlannedWork]:
    planned: dict[str, float] = {}
    for each in sent:
        for leg in each.legs:
            units = each.flow.requests_per_s * leg.units_per_request
            planned[leg.work_class] = planned.get(leg.work_class, 0.0) + units
    capacity = dict.fromkeys(planned, 0.0)
    for instance in instances:
        for name, units in instance.units_per_s.items():
            capacity[name] = capacity.get(name, 0.0) + units * instance.count
    place = {component.name: number for number, component in enumerate(app.graph.components)}
    for name in sorted(capacity, key=lambda name: ([place[each] for each in _components(name)], name)):
        units, most = planned.get(name, 0.0), capacity[name]
        yield PlannedWork(name, _components(name), units, most, units / most if most > 0 else None)


def _component(
    name: str, sent: list[_Sent], work: tuple[PlannedWork, ...], replicas: tuple[PlannedReplicas, ...]
) -> PlannedComponent:
    having = [each for each in replicas if name in each.components]
    loads = [each.load for each in work if name in each.components and each.load is not None]
    return PlannedComponent(
        component=name,
        requests_per_s=sum(each.flow.requests_per_s for each in sent if name in each.stage_of),
        load=max(loads, default=None),
        executors=sum(each.count for each in having),
        usd_per_hour=sum(each.usd_per_hour for each in having if len(each.components) == 1),
        shared_usd_per_hour=sum(each.usd_per_hour for each in having if len(each.components) > 1),
    )


def _edge(edge: GraphEdge, sent: list[_Sent]) -> PlannedEdge:
    visits = crossing = size = between_zones = 0.0
    for each in sent:
        stages = each.stage_of.get(edge.source), each.stage_of.get(edge.target)
        if stages[0] is None or stages[1] is None:
            continue
        visits += each.flow.requests_per_s
        if stages[0] != stages[1]:
            moved = each.flow.requests_per_s * edge.bytes_of(each.kind.work[edge.source])
            crossing, size = crossing + each.flow.requests_per_s, size + moved
            if each.flow.zones[stages[0]] != each.flow.zones[stages[1]]:
                between_zones += moved
    return PlannedEdge(edge.source, edge.target, visits, crossing, size, between_zones)


def _type(kind: GraphRequestType, asked: float, sent: list[_Sent]) -> PlannedType:
    paths = tuple(each.path for each in sent if each.kind is kind)
    served = sum(path.requests_per_s for path in paths)
    return PlannedType(kind.name, kind.share, asked, served, paths)
