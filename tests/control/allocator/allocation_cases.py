"""Small random worlds for the allocator, and a builder of libraries by hand."""

import random
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from msgspec import UNSET, UnsetType

from templates_lib.values.disks import NO_DISKS, Disks, key_of
from templates_lib.values.instance import Instance, Node
from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Guardrails, Mode, Replicas, Settings, Survive
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice
from templates_lib.values.work import Demand, Edge, Leg, Route, Unit, WorkClass

NOW = "2026-11-21T00:00:00Z"
ENGINES = ("", "installed", "there")
"""Engines of templates: not known, one that nodes have to install, one that they have."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A template by hand: nodes by configuration and capacity (units/s by class) at every point."""

    nodes: dict[str, int]
    points: tuple[dict[str, float], ...]
    engine: str = ""


@dataclass(frozen=True, slots=True)
class World:
    shapes: tuple[Shape, ...]
    offers: tuple[Offer, ...]
    routes: tuple[Route, ...]
    demand: tuple[Demand, ...]
    pools: tuple[SupplyPool, ...] = ()
    traffic: tuple[TrafficPrice, ...] = ()
    instances: tuple[Instance, ...] = ()
    settings: Settings = field(default_factory=Settings)
    disks: Disks = NO_DISKS
    barred: dict[str, dict[str, tuple[str, ...]]] | UnsetType = UNSET

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            "v", NOW, self.offers, self.pools, self.traffic, self.instances, self.routes, self.demand,
            self.settings, "lib", "cost", self.disks, self.barred,
        )  # fmt: skip

    @property
    def library(self) -> Library:
        return make_library(self.shapes)


def name_of(index: int) -> str:
    return f"{index:032x}"


def make_library(shapes: tuple[Shape, ...]) -> Library:
    configs = tuple(sorted({c for s in shapes for c in s.nodes}))
    ids = sorted({k for s in shapes for p in s.points for k in p})
    classes = tuple(WorkClass(k, k.split("/")[0], k.split("/")[-1], Unit.INVOCATION, "shape", 100.0) for k in ids)
    nodes = np.array([[s.nodes.get(c, 0) for c in configs] for s in shapes], dtype=np.uint8)
    point_template = [t for t, s in enumerate(shapes) for _ in s.points]
    points = [p for s in shapes for p in s.points]
    entries = [(i, ids.index(k), v) for i, p in enumerate(points) for k, v in sorted(p.items())]
    return Library(
        "lib", "cost", configs, classes,
        np.array([name_of(t).encode() for t in range(len(shapes))], dtype="S32"),
        nodes.reshape(len(shapes), len(configs)),
        np.array(point_template, dtype=np.int32),
        np.array([e[0] for e in entries], dtype=np.int32),
        np.array([e[1] for e in entries], dtype=np.int16),
        np.array([e[2] for e in entries], dtype=np.float64),
        ENGINES,
        np.array([ENGINES.index(s.engine) for s in shapes], dtype=np.int16),
    )  # fmt: skip


def offer(
    config: str, zone: str, usd: float, count: int | None, market: Market = Market.ON_DEMAND, kind: str = ""
) -> Offer:
    risk = 0.05 if market is Market.SPOT else 0.0
    return Offer("x", zone, zone, kind or config, config, market, usd, count, NOW, risk)


def random_world(seed: int) -> World:
    """At most 300 columns, with whatever the allocator knows switched on at random."""
    rng = random.Random(seed)
    configs = [f"c{i}" for i in range(rng.randint(2, 4))]
    zones = [f"z{i}" for i in range(rng.randint(1, 3))]
    shapes = _random_shapes(rng, configs)
    offers = _random_offers(rng, configs, zones)
    models = sorted({k.split("/")[0] for s in shapes for p in s.points for k in p})
    routes, demand = [], []
    for m in models:
        kinds = {k for s in shapes for p in s.points for k in p if k.startswith(f"{m}/")}
        if {f"{m}/prefill", f"{m}/decode"} <= kinds:
            legs = (Leg(f"{m}/prefill", rng.uniform(1, 3)), Leg(f"{m}/decode", rng.uniform(1, 3)))
            routes.append(Route(f"{m}/split", m, "chat", legs, (Edge(0, 1, rng.choice([1e6, 1e8, 1e9])),)))
        if f"{m}/aggregated" in kinds:
            routes.append(Route(f"{m}/both", m, "chat", (Leg(f"{m}/aggregated", 1.0),)))
        demand.append(Demand(m, "chat", rng.choice([2.0, 5.0, 9.0, 14.0]), rng.choice([0, 0, 1])))
    traffic = tuple(
        TrafficPrice(f"x/{a}", f"x/{b}", rng.choice([0.0, 0.01, 0.02]))
        for a in zones for b in zones if a != b and rng.random() < 0.6
    )  # fmt: skip
    pools = ()
    if rng.random() < 0.5:
        members = {o.key: float(rng.choice([1, 2, 4])) for o in offers if rng.random() < 0.5}
        pools = (SupplyPool("pool", float(rng.randint(4, 16)), "gpu", members),)
    mode = rng.choice([Mode.ZONES, Mode.ZONES, Mode.PAPER])
    settings = _random_settings(rng, mode, sorted({leg.work_class for r in routes for leg in r.legs}))
    instances = _random_instances(rng, shapes, offers)
    disks = _random_disks(random.Random(-seed - 1), models)
    world = World(shapes, offers, tuple(routes), tuple(demand), pools, traffic, instances, settings, disks)
    return _with_engines(world, random.Random(-seed - 2))


def _random_shapes(rng: random.Random, configs: list[str]) -> tuple[Shape, ...]:
    speed = {c: rng.uniform(1.0, 6.0) for c in configs}
    shapes: list[Shape] = []
    for m in range(rng.randint(1, 3)):
        phases = rng.choice([("prefill", "decode"), ("aggregated",), ("prefill", "decode", "aggregated")])
        for phase in phases:
            for _ in range(rng.randint(2, 7)):
                nodes = {c: n for c in configs if (n := rng.choice([0, 0, 1, 1, 2, 3])) > 0} or {configs[0]: 1}
                rate = sum(speed[c] * n for c, n in nodes.items()) * rng.uniform(0.5, 1.0)
                shapes.append(Shape(nodes, ({f"m{m}/{phase}": rate},)))
    if rng.random() < 0.4:
        kinds = sorted({k for s in shapes for p in s.points for k in p})
        for _ in range(3):
            pair = rng.sample(kinds, min(2, len(kinds)))
            points = tuple({k: rng.uniform(0.5, 8.0) for k in pair} for _ in range(rng.choice([1, 2])))
            shapes.append(Shape({rng.choice(configs): rng.randint(1, 2)}, points))
    return tuple(shapes)


def _random_offers(rng: random.Random, configs: list[str], zones: list[str]) -> tuple[Offer, ...]:
    offers = []
    plenty = rng.choice([2, 6, 12])
    for c in configs:
        base = rng.uniform(0.5, 5.0)
        for z in zones:
            if rng.random() < 0.85:
                count = rng.choice([None, rng.randint(0, plenty), plenty])
                offers.append(offer(c, z, base * rng.uniform(0.9, 1.2), count))
            if rng.random() < 0.25:
                offers.append(offer(c, z, base * rng.uniform(0.9, 1.4), rng.randint(1, plenty), kind=f"{c}-other"))
            if rng.random() < 0.3:
                offers.append(offer(c, z, base * rng.uniform(0.3, 0.6), rng.randint(1, plenty), Market.SPOT))
    return tuple(offers)


def _random_disks(rng: random.Random, models: list[str]) -> Disks:
    """Of nodes that hold any of the models; in every third world they cost nothing."""
    held = {m: rng.choice([100, 400]) for m in models}
    sets = (c for n in range(1, len(models) + 1) for c in combinations(models, n))
    return Disks({"x": rng.choice([0.0, 0.1, 2.0])}, {key_of(c): sum(held[m] for m in c) for c in sets})


def _with_engines(world: World, rng: random.Random) -> World:
    """The same with engines of templates, some of which take long to install, have other disks, or may not be there."""
    shapes = tuple(replace(shape, engine=rng.choice(ENGINES)) for shape in world.shapes)
    settings = replace(world.settings, install_minutes=rng.choice([{}, {"installed": 12.0}, {"installed": 45.0}]))
    gib = {**world.disks.gib, **{f"{held}@installed": size + 300 for held, size in world.disks.gib.items()}}
    barred = rng.choice([UNSET, UNSET, {"m0": {"installed": ("x",)}}])
    return replace(world, shapes=shapes, settings=settings, disks=replace(world.disks, gib=gib), barred=barred)


def _random_settings(rng: random.Random, mode: Mode, classes: list[str]) -> Settings:
    replicas = {}
    if rng.random() < 0.2:
        replicas[rng.choice(classes)] = Replicas(rng.randint(0, 2), rng.choice([None, 3]))
    guardrails = Guardrails(
        max_usd_per_hour=rng.choice([None, None, None, 20.0]),
        max_spot_share=rng.choice([1.0, 1.0, 0.3]),
        max_zone_share=rng.choice([1.0, 1.0, 1.0, 0.6]),
        replicas=replicas,
    )
    survive = rng.choice([Survive.NOTHING] * 4 + [Survive.INSTANCE, Survive.ZONE])
    return Settings(mode=mode, guardrails=guardrails, survive=survive, survive_share=rng.choice([1.0, 0.5]))


def _random_instances(rng: random.Random, shapes: tuple[Shape, ...], offers: tuple[Offer, ...]) -> tuple[Instance, ...]:
    instances = []
    by_group: dict[tuple[str, Market], dict[str, list[Offer]]] = {}
    for o in offers:
        by_group.setdefault((o.zone_id, o.market), {}).setdefault(o.node_config, []).append(o)
    for i in range(rng.choice([0, 2, 5])):
        t = rng.randrange(len(shapes))
        zone, market = rng.choice(sorted(by_group))
        sold = by_group[zone, market]
        if set(shapes[t].nodes) <= set(sold):
            keys = [rng.choice(sold[c]).key for c, n in shapes[t].nodes.items() for _ in range(n)]
            nodes = tuple(Node(f"n{i}-{j}", key) for j, key in enumerate(keys))
            state = rng.choice(["ready", "ready", "loading", "draining"])
            instances.append(Instance(f"i{i}", name_of(t), zone, market, state, nodes))
    return tuple(instances)
