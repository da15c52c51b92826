"""Random small fleets with everything a snapshot may hold: for tests that look at every plan, not at its optimum."""

from dataclasses import dataclass

import numpy as np

from templates_lib.values.disks import Disks
from templates_lib.values.instance import Instance
from templates_lib.values.library import Library
from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Guardrails, Mode, Replicas, Settings, Survive
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from tests import factories as make

CONFIGS = ("A:1/n25", "B:1/n25", "C:1/n25")
MARKETS = (Market.ON_DEMAND, Market.SPOT)


@dataclass(frozen=True)
class Fleet:
    snapshot: Snapshot
    library: Library


def random_fleet(seed: int) -> Fleet:
    """Up to 3 zones and 19 templates: aggregated beside disaggregated, a unit shared by two models, unknown stock."""
    draw = np.random.default_rng(seed)
    zones = [f"aws/{name}" for name in "abc"[: int(draw.integers(1, 4))]]
    templates = {f"{i:032x}": _template(draw) for i in range(int(draw.integers(8, 20)))}
    classes = [make.work_class(name) for name in ("m/prefill", "m/decode", "m/aggregated", "n/serve")]
    offers = [o for zone in zones for o in _offers(draw, zone)]
    routes = [
        make.route("m", {"m/prefill": 100.0, "m/decode": 20.0}, bytes_per_edge=float(10 ** draw.uniform(4, 8))),
        make.route("m", {"m/aggregated": 1.0}, name="m/aggregated"),
        make.route("n", {"n/serve": 1.0}),
    ]
    snapshot = make.snapshot(
        offers,
        routes,
        {"m": float(draw.uniform(0.5, 12)), "n": float(draw.uniform(0.2, 6))},
        pools=_pools(draw, offers),
        traffic={(a, b): 0.02 for a in zones for b in zones if a != b and draw.random() < 0.7},
        instances=[i for name, (nodes, _) in templates.items() for i in _instances(draw, name, nodes, offers)],
        settings=_settings(draw),
        disks=Disks({"aws": float(draw.choice([0.0, 0.08, 2.0]))}, {"m": 120, "n": 340, "m+n": 430}),
    )
    return Fleet(snapshot, make.library(classes, templates))


def _template(draw: np.random.Generator) -> tuple[dict[str, int], list[dict[str, float]]]:
    picked = draw.choice(len(CONFIGS), int(draw.integers(1, 3)), replace=False)
    nodes = {CONFIGS[c]: int(draw.integers(1, 3)) for c in picked}
    size = sum(n * (1 + CONFIGS.index(c)) for c, n in nodes.items())

    def units(base: float) -> float:
        return round(float(base * size * draw.uniform(0.5, 1.4)), 2)

    kinds: list[list[dict[str, float]]] = [
        [{"m/prefill": units(300)}],
        [{"m/decode": units(60)}],
        [{"m/aggregated": units(0.3)}],
        [{"n/serve": units(1)}],
        [{"m/decode": units(60), "n/serve": units(0.3)}, {"m/decode": units(20), "n/serve": units(0.8)}],
    ]
    return nodes, kinds[int(draw.integers(len(kinds)))]


def _offers(draw: np.random.Generator, zone: str) -> list[Offer]:
    """None to two offers of every configuration and market, some of unknown stock."""
    offers = []
    for size, config in enumerate(CONFIGS, start=1):
        for market in MARKETS:
            for rank in range(int(draw.integers(0, 3))):
                spot = market is Market.SPOT
                price = round(float(size * draw.uniform(0.5, 1.5) * (0.4 if spot else 1.0)), 3)
                count = None if draw.random() < 0.2 else int(draw.integers(0, 8))
                kind = f"vm{size}{rank}"
                often = 0.01 * rank if spot else 0.0
                offers.append(
                    make.offer(
                        config, zone, price, count, market=market, instance_type=kind, interruptions_per_hour=often
                    )
                )
    return offers


def _pools(draw: np.random.Generator, offers: list[Offer]) -> list[SupplyPool]:
    if draw.random() < 0.5:
        return []
    members = {o.key: float(draw.integers(1, 5)) for o in offers if draw.random() < 0.6}
    return [SupplyPool("family", float(draw.integers(8, 60)), "vCPU", members)]


def _instances(
    draw: np.random.Generator, template_id: str, nodes: dict[str, int], offers: list[Offer]
) -> list[Instance]:
    if not offers or draw.random() < 0.6:
        return []
    at = offers[int(draw.integers(len(offers)))]
    group = {o.node_config: o for o in offers if (o.zone_id, o.market) == (at.zone_id, at.market)}
    if not nodes.keys() <= group.keys():
        return []
    state = "draining" if draw.random() < 0.2 else "ready"
    return [make.running(template_id, [group[c] for c, n in nodes.items() for _ in range(n)], state=state)]


def _settings(draw: np.random.Generator) -> Settings:
    bounds = Replicas(max=int(draw.integers(3, 9)))
    rails = Guardrails(
        max_usd_per_hour=float(draw.uniform(5, 60)) if draw.random() < 0.25 else None,
        max_spot_share=float(draw.uniform(0, 1)) if draw.random() < 0.4 else 1.0,
        max_zone_share=float(draw.uniform(0.4, 1)) if draw.random() < 0.3 else 1.0,
        replicas={"m/decode": bounds} if draw.random() < 0.3 else {},
        max_unproven_nodes=int(draw.integers(0, 6)),
    )
    survive = (Survive.NOTHING, Survive.NOTHING, Survive.INSTANCE, Survive.ZONE)[int(draw.integers(4))]
    return Settings(
        mode=Mode.PAPER if draw.random() < 0.25 else Mode.ZONES,
        utilisation_cap=float(draw.uniform(0.6, 1)),
        startup_minutes=float(draw.uniform(0, 20)),
        survive=survive,
        survive_share=float(draw.choice([0.3, 0.5, 1.0])),
        guardrails=rails,
    )
