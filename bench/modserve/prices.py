"""What pools by stage cost over dated offers: each stage on whatever is cheapest, beside the best fleet of one GPU
type."""

from collections import Counter
from dataclasses import replace

import numpy as np

from bench.graph_specs import BenchType, library_of_world, world_of_apps
from bench.modserve.stages import MODELS, Traffic, stages_of
from control.allocator import solve
from control.checker import check
from control.planning.recording import versioned
from control.simulator.pools.pool_requests import PoolRequest
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Settings, WorkLimits
from templates_lib.values.snapshot import Snapshot

CLOUDS = "{{cloud: aws, regions: [us-east-1, us-east-2, us-west-2], markets: [{}]}}"
MARKETS = ("on-demand", "on-demand, spot")
NOON = "2026-11-27T12:00:00+00:00"
SLO = {"ttft_ms": 4000.0, "tpot_ms": 60.0}
REQUESTS_PER_S = 20.0
AS_IS = Settings(startup_minutes=0.0, limits=WorkLimits(wall_clock_s=10.0))
BAR = 0.10


def run() -> bool:
    """Print $/h of both, on demand and with spot. Tells whether mixing saves the bar in one of the markets for each
    model."""
    met = True
    print(f"{REQUESTS_PER_S:g} requests/s as in the trace's windows, TTFT {SLO['ttft_ms'] / 1000:g} s, TPOT "
          f"{SLO['tpot_ms']:g} ms, three regions of AWS")  # fmt: skip
    print(f"{'model':16}{'market':20}{'one type $/h':>13}  {'':14}{'any $/h':>9}{'saved':>8}  on")
    for name, graph in MODELS.items():
        saved = [_saved(name, graph, market) for market in MARKETS]
        met = met and max(saved) >= BAR
    return met


def _saved(name: str, graph: str, market: str) -> float:
    """Print a row; share of the price that mixing GPU types saves."""
    world = world_of_apps({graph: _types(name)}, CLOUDS.format(market), REQUESTS_PER_S, SLO)
    templates = library_of_world(world)
    snapshot = versioned(replace(world.snapshot(NOON, templates), settings=AS_IS))
    plan = solve(snapshot, templates)
    gpus = sorted({offer.node_config.partition(":")[0] for offer in snapshot.offers})
    alone = {gpu: solve(_of_type(snapshot, gpu), templates) for gpu in gpus}
    served = {gpu: each.usd_per_hour for gpu, each in alone.items() if not each.unmet}
    if plan.unmet or check(plan, snapshot) or not served:
        print(f"{name:16}{market:20} not served, or the plan is unsound")
        return 0.0
    cheapest = min(served, key=served.__getitem__)
    saved = 1 - plan.usd_per_hour / served[cheapest]
    row = f"{served[cheapest]:13.2f}  {cheapest:14}{plan.usd_per_hour:9.2f}{saved:8.1%}"
    print(f"{name:16}{market:20}{row}  {_places(plan)}")
    return saved


def _types(name: str) -> list[BenchType]:
    """The mix of the trace's windows, with pictures as this model has them cut."""
    requests = Traffic(stages_of(name)).requests(1.0)
    pictured = [each for each in requests if each.images]
    plain = [each for each in requests if not each.images]
    images = float(np.mean([len(each.images) for each in pictured]))
    tokens = float(np.mean([each.image_tokens for each in pictured]))
    pictures = {"images": images, "tokens_per_image": tokens / images}
    share = len(pictured) / len(requests)
    return [
        BenchType("image-text-to-text", share, _lengths(pictured) | pictures),
        BenchType("text-to-text", 1 - share, _lengths(plain)),
    ]


def _lengths(requests: list[PoolRequest]) -> dict[str, float]:
    return {
        "prompt_tokens": float(np.mean([each.text_tokens for each in requests])),
        "output_tokens": float(np.mean([each.output_tokens for each in requests])),
    }


def _of_type(snapshot: Snapshot, gpu: str) -> Snapshot:
    own = tuple(offer for offer in snapshot.offers if offer.node_config.startswith(f"{gpu}:"))
    return versioned(replace(snapshot, offers=own))


def _places(plan: Plan) -> str:
    """Nodes of the plan by configuration."""
    nodes: Counter[str] = Counter()
    for planned in plan.instances:
        for config, number in planned.nodes.items():
            nodes[config.partition("/")[0]] += number * planned.count
    return ", ".join(f"{number} x {config}" for config, number in sorted(nodes.items()))
