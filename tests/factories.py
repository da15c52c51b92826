"""Small worlds for tests: offers, libraries, snapshots, plans, with defaults for all that a test does not care of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from control.diff.target import Target
from templates_lib.values.disks import Disks
from templates_lib.values.instance import Instance, Node
from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import Placement
from templates_lib.values.plan import Flow, Plan, PlannedInstance, PlannedOffer
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from templates_lib.values.template import ServingTemplate
from templates_lib.values.traffic import TrafficPrice
from templates_lib.values.work import Demand, Edge, Leg, Route, Unit, WorkClass

Point = Mapping[str, float]
"""Work class id → units per second."""


def work_class(name: str, unit: Unit = Unit.PROMPT_TOKEN) -> WorkClass:
    """A class named `component/phase`."""
    component, _, phase = name.partition("/")
    return WorkClass(name, component, phase or "serve", unit, "shape", 1000.0)


def library(
    classes: Sequence[WorkClass],
    templates: Mapping[str, tuple[Mapping[str, int], Sequence[Point]]],
    engine_of: Mapping[str, str] | None = None,
) -> Library:
    """Templates by id: (nodes, operating points). `engine_of`: template id → its engines, where they are known."""
    configs = tuple(sorted({c for nodes, _ in templates.values() for c in nodes}))
    index = {c.id: k for k, c in enumerate(classes)}
    points = [(t, point) for t, (_, points) in enumerate(templates.values()) for point in points]
    entries = [(p, index[name], units) for p, (_, point) in enumerate(points) for name, units in point.items()]
    engines = [(engine_of or {}).get(name, "") for name in templates]
    known = tuple(sorted(set(engines)))
    return Library(
        version="library-1",
        cost_model_fingerprint="costs-1",
        configs=configs,
        classes=tuple(classes),
        ids=np.array([name.encode() for name in templates], dtype="S32"),
        nodes=np.array([[n.get(c, 0) for c in configs] for n, _ in templates.values()], dtype=np.uint8),
        point_template=np.array([t for t, _ in points], dtype=np.int32),
        entry_point=np.array([p for p, _, _ in entries], dtype=np.int32),
        entry_class=np.array([k for _, k, _ in entries], dtype=np.int16),
        entry_units_per_s=np.array([u for _, _, u in entries], dtype=np.float64),
        engines=known,
        template_engine=np.array([known.index(engine) for engine in engines], dtype=np.int16),
    )


def offer(config: str, zone: str, usd_per_hour: float, count: int | None = 100, **fields: Any) -> Offer:
    """An offer in `cloud/zone`; the instance type is named after the configuration unless given."""
    cloud, _, name = zone.partition("/")
    fields = {"market": Market.ON_DEMAND, "instance_type": f"vm-{config}", **fields}
    return Offer(
        cloud=cloud,
        region="r",
        zone=name,
        node_config=config,
        usd_per_hour=usd_per_hour,
        available_count=count,
        **fields,
    )


def route(app: str, legs: Mapping[str, float], *, bytes_per_edge: float = 0.0, name: str = "") -> Route:
    """Legs in a chain, the same number of bytes over each edge. The request type is `chat`."""
    edges = tuple(Edge(i, i + 1, bytes_per_edge) for i in range(len(legs) - 1))
    return Route(name or f"{app}/route", app, "chat", tuple(Leg(c, u) for c, u in legs.items()), edges)


def running(template_id: str, offers: Iterable[Offer], name: str = "", state: str = "ready") -> Instance:
    """An instance with one node from each of `offers`, which are of one zone and market."""
    from_offers = tuple(offers)
    nodes = tuple(Node(f"{name}{template_id}-{i}", o.key) for i, o in enumerate(from_offers))
    first = from_offers[0]
    return Instance(f"{name}{template_id}", template_id, first.zone_id, first.market, state, nodes)


def snapshot(
    offers: Iterable[Offer],
    routes: Iterable[Route],
    demand: Mapping[str, float],
    *,
    pools: Iterable[SupplyPool] = (),
    traffic: Mapping[tuple[str, str], float] | None = None,
    instances: Iterable[Instance] = (),
    settings: Settings | None = None,
    disks: Disks | UnsetType = UNSET,
    barred: dict[str, dict[str, tuple[str, ...]]] | UnsetType = UNSET,
) -> Snapshot:
    """`demand` is requests per second by app; `traffic` is $/GB by (source, target)."""
    return Snapshot(
        version="snapshot-1",
        now="2026-11-21T00:00:00Z",
        offers=tuple(offers),
        pools=tuple(pools),
        traffic=tuple(TrafficPrice(a, b, usd) for (a, b), usd in (traffic or {}).items()),
        instances=tuple(instances),
        routes=tuple(routes),
        demand=tuple(Demand(app, "chat", rate) for app, rate in demand.items()),
        settings=settings or Settings(),
        library_version="library-1",
        cost_model_fingerprint="costs-1",
        disks=disks,
        barred=barred,
    )


def plan(
    instances: Sequence[PlannedInstance], offers: Sequence[PlannedOffer], flows: Sequence[Flow], **fields: Any
) -> Plan:
    """A plan whose sums follow from its parts; `init_usd`, `spot_risk_usd_per_hour` and the rest may be given."""
    rent = sum(o.nodes * o.usd_per_hour for o in offers)
    traffic = sum(f.traffic_usd_per_hour for f in flows)
    init, risk = fields.pop("init_usd", 0.0), fields.pop("spot_risk_usd_per_hour", 0.0)
    objective = rent + traffic + init + risk
    defaults: dict[str, Any] = {
        "id": "plan-1",
        "snapshot_version": "snapshot-1",
        "library_version": "library-1",
        "policy": "medley",
        "usd_per_hour": rent + traffic,
        "rent_usd_per_hour": rent,
        "traffic_usd_per_hour": traffic,
        "unmet": {},
        "objective": objective,
        "bound": objective,
        "gap": 0.0,
        "solve_s": 0.1,
        "status": "optimal",
    }
    parts = {"instances": tuple(instances), "offers": tuple(offers), "flows": tuple(flows)}
    return Plan(**parts, init_usd=init, spot_risk_usd_per_hour=risk, **(defaults | fields))


def target(
    template_id: str, count: int, nodes: dict[str, int], units_per_s: dict[str, float], usd_per_hour: float, **how: Any
) -> Target:
    """What plan-1 wants of a template, on demand in aws/a unless `how` says otherwise."""
    template = ServingTemplate(template_id, "m", "", "", "", "", nodes, Placement("none", 1, {}))
    at = {"plan_id": "plan-1", "zone": "aws/a", "market": Market.ON_DEMAND} | how
    return Target(model="m", template=template, count=count, units_per_s=units_per_s, usd_per_hour=usd_per_hour, **at)
