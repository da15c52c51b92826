"""Random routes of several legs over a few zones."""

import random

from templates_lib.values.settings import Guardrails, Mode, Settings, Survive, WorkLimits
from templates_lib.values.traffic import TrafficPrice
from templates_lib.values.work import Demand, Edge, Leg, Route
from tests.control.allocator.allocation_cases import Shape, World, offer

CONFIGS = ("c0", "c1")
SIZES = (1e6, 1e8, 1e9)


def tree_edges(rng: random.Random, legs: int) -> tuple[Edge, ...]:
    """Edges that join each leg to one before it, in either direction, and now and then to none."""
    edges = []
    for leg in range(1, legs):
        if rng.random() < 0.9:
            ends = rng.sample([leg, rng.randrange(leg)], 2)
            edges.append(Edge(*ends, rng.choice(SIZES)))
    return tuple(rng.sample(edges, len(edges)))


def route_world(seed: int, *, least_legs: int = 1) -> World:
    """One to two routes of up to four legs over up to three zones, some without capacity for some legs."""
    rng = random.Random(seed)
    zones = [f"z{i}" for i in range(rng.randint(1, 3))]
    offers = tuple(
        offer(c, z, rng.uniform(0.5, 5.0), rng.randint(1, 6)) for c in CONFIGS for z in zones if rng.random() < 0.8
    )
    offers = offers or (offer("c0", "z0", 1.0, 4),)
    routes, demand, shapes = [], [], []
    for app in ("a", "b")[: rng.randint(1, 2)]:
        count = rng.randint(least_legs, 4)
        kinds = [f"{app}/leg{rng.randrange(count) if rng.random() < 0.1 else i}" for i in range(count)]
        legs = tuple(Leg(kind, rng.choice([0.5, 1.0, 2.0])) for kind in kinds)
        routes.append(Route(f"{app}/tree", app, "chat", legs, tree_edges(rng, count)))
        demand.append(Demand(app, "chat", rng.choice([1.0, 3.0, 6.0])))
        for kind in sorted(set(kinds)):
            shapes.extend(
                Shape({config: rng.randint(1, 2)}, ({kind: rng.uniform(2.0, 9.0)},))
                for config in rng.sample(CONFIGS, rng.randint(1, 2))
            )
        if rng.random() < 0.3:
            shared = {kind: rng.uniform(1.0, 4.0) for kind in sorted(set(kinds))}
            shapes.append(Shape({rng.choice(CONFIGS): 1}, (shared,)))
    traffic = tuple(
        TrafficPrice(f"x/{a}", f"x/{b}", rng.choice([0.0, 0.01, 0.05]))
        for a in zones for b in zones if a != b and rng.random() < 0.7
    )  # fmt: skip
    return World(tuple(shapes), offers, tuple(routes), tuple(demand), traffic=traffic, settings=_settings(rng))


def _settings(rng: random.Random) -> Settings:
    guardrails = Guardrails(
        max_usd_per_hour=rng.choice([None, None, 15.0]),
        max_zone_share=rng.choice([1.0, 1.0, 0.6]),
    )
    return Settings(
        mode=rng.choice([Mode.ZONES, Mode.ZONES, Mode.ZONES, Mode.PAPER]),
        guardrails=guardrails,
        limits=WorkLimits(gap=1e-6),
        survive=rng.choice([Survive.NOTHING, Survive.NOTHING, Survive.INSTANCE, Survive.ZONE]),
        survive_share=rng.choice([1.0, 0.5]),
    )


def line(legs: int, zones: int) -> World:
    """One route of `legs` legs, one after the other, each of which two kinds of machines can serve in every zone."""
    rng = random.Random(legs * 100 + zones)
    places = [f"z{i}" for i in range(zones)]
    offers = tuple(offer(c, z, rng.uniform(1.0, 5.0), 400) for c in CONFIGS for z in places)
    shapes = tuple(
        Shape({config: count}, ({f"a/leg{i}": count * rng.uniform(3.0, 6.0)},))
        for i in range(legs) for config in CONFIGS for count in (1, 2)
    )  # fmt: skip
    route = Route(
        "a/line", "a", "chat", tuple(Leg(f"a/leg{i}", 1.0) for i in range(legs)),
        tuple(Edge(i, i + 1, 1e7) for i in range(legs - 1)),
    )  # fmt: skip
    traffic = tuple(TrafficPrice(f"x/{a}", f"x/{b}", 0.02) for a in places for b in places if a != b)
    return World(shapes, offers, (route,), (Demand("a", "chat", 11.0),), traffic=traffic)
