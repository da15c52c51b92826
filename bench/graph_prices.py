"""What any-to-any models cost over real offers, beside the Cornserve paper's cells of A100s. Exits with 1 where it is
more.

    python -m bench.graph_prices [--graphs qwen-image,qwen2.5-omni-7b] [-o bench/printed]

The sixteen set-ups of the paper's evaluation: InternVL3 38B and Qwen2.5-VL 32B under the four workloads of its Table 3
and ServeGen's images, Qwen2.5-Omni and Qwen3-Omni on 8 and 16 GPUs, Qwen-Image with two lengths of prompts. Of each,
what the paper's planner serves on its GPUs (8, or 16 for both Omni models' second) by estimated times is planned over
the dated offers of AWS, on demand: on A100s alone, and on whatever is sold. No objective binds. A plan is looked for in
twenty seconds, and counts as it is where a cheaper one could be found in more.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.evaluation.table import Table
from bench.graph_specs import BenchType, library_of_world, world_of_apps
from control.allocator import solve
from control.checker import check
from control.planning.graph_sources import executor_source
from control.planning.recipe import ExecutorRecipe
from control.planning.recording import versioned
from control.planning.world import World
from templates_lib.apps.app_work import AppWork
from templates_lib.cells.network_design import most_requests
from templates_lib.values.settings import Settings, WorkLimits

CLOUDS = "{cloud: aws, regions: [us-east-1, us-east-2, us-west-2]}"
PAPER_GPU, NODE_GPUS = "A100-80", 8
AS_PAPER = Settings(utilisation_cap=1.0, startup_minutes=0.0, limits=WorkLimits(wall_clock_s=20.0))
NOON = "2026-11-27T12:00:00+00:00"
IMAGE, TEXT = "image-text-to-text", "text-to-text"
# (workload, images/request, tokens of an image in InternVL3 (tiles of 256), in Qwen2.5-VL (28 by 28 pixels), in, out)
TABLE_3 = (
    ("lower resolution", 1.0, 7 * 256, 60 * 37, 1000, 300),
    ("standard", 1.0, 13 * 256, 68 * 38, 1000, 300),
    ("less text", 1.0, 13 * 256, 68 * 38, 100, 100),
    ("fewer images", 0.6, 13 * 256, 68 * 38, 100, 100),
)
READERS = ("internvl3-38b", "qwen2.5-vl-32b")
COLUMNS = ("set-up", "requests/s", "its cells, $/h", "on A100s, $/h", "on all, $/h", "saved", "nodes")
HEARD, SPOKEN = 0.5, 0.2
"""Shares of the requests of Omni models that bring audio, and that are answered with it."""


@dataclass(frozen=True, slots=True)
class SetUp:
    name: str
    graph: str
    types: tuple[BenchType, ...]
    gpus: int = NODE_GPUS


def set_ups() -> Iterator[SetUp]:
    for number, graph in enumerate(READERS):
        for name, images, *tokens, prompt, output in TABLE_3:
            lengths = {"prompt_tokens": prompt, "output_tokens": output, "tokens_per_image": tokens[number]}
            types = [BenchType(IMAGE, images, lengths)]
            if images < 1:
                types.append(BenchType(TEXT, 1 - images, lengths))
            yield SetUp(name, graph, tuple(types))
        yield SetUp("ServeGen", graph, (BenchType(IMAGE, 1.0, workload="servegen-mm-image"),))
    for graph in ("qwen2.5-omni-7b", "qwen3-omni-30b-a3b"):
        types = tuple(
            BenchType(f"image{heard}-text-to-{answer}", round(share_in * share_out, 6))
            for heard, share_in in (("", 1 - HEARD), ("-audio", HEARD))
            for answer, share_out in (("text", 1 - SPOKEN), ("audio", SPOKEN))
        )
        for gpus in (NODE_GPUS, 2 * NODE_GPUS):
            yield SetUp(f"{gpus} GPUs", graph, types, gpus)
    for prompt in (1000, 2000):
        yield SetUp(f"{prompt} tokens", "qwen-image", (BenchType("text-to-image", 1.0, {"prompt_tokens": prompt}),))


def work_of(world: World) -> AppWork:
    (work,) = (executor_source(each).works[0] for each in world.graphs if isinstance(each, ExecutorRecipe))
    return work


def priced(each: SetUp) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether the plans are sound and cost no more than the paper's cells."""
    world = world_of_apps({each.graph: each.types}, CLOUDS, 1.0)
    node = next(n for n in world.recipe.nodes if (n.gpu, n.gpu_count) == (PAPER_GPU, NODE_GPUS))
    problem = work_of(world).problem(node)
    if problem is None:
        return (each.name, *["does not fit"] * (len(COLUMNS) - 1)), False
    served = most_requests(problem, each.gpus).requests_per_s
    price = min(o.usd_per_hour for o in world.quotes.offers if o.node_config == node.id)
    cells = price * each.gpus / NODE_GPUS
    templates = library_of_world(world)
    snapshot = replace(world.snapshot(NOON, templates), settings=AS_PAPER)
    demand = tuple(replace(d, requests_per_s=d.requests_per_s * served) for d in snapshot.demand)
    snapshot = versioned(replace(snapshot, demand=demand))
    of_paper = tuple(offer for offer in snapshot.offers if offer.node_config.startswith(f"{PAPER_GPU}:"))
    own = versioned(replace(snapshot, offers=of_paper))
    plan, alike = solve(snapshot, templates), solve(own, templates)
    sound = not plan.unmet and not alike.unmet and not check(plan, snapshot) and not check(alike, own)
    nodes: Counter[str] = Counter()
    for offer in plan.offers:
        nodes[offer.node_config.partition("/")[0]] += offer.nodes
    on = ", ".join(f"{count} {config}" for config, count in sorted(nodes.items())) + ("" if sound else ", UNSOUND")
    costs = f"{cells:.2f}", f"{alike.usd_per_hour:.2f}", f"{plan.usd_per_hour:.2f}"
    row = each.name, f"{served:.3g}", *costs, f"{1 - plan.usd_per_hour / cells:.1%}", on
    return row, sound and plan.usd_per_hour <= cells * (1 + 1e-3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default="", help="only these")
    parser.add_argument("-o", type=Path, help="folder to keep the tables in")
    asked = parser.parse_args()
    every = list(set_ups())
    known = list(dict.fromkeys(each.graph for each in every))
    wanted = asked.graphs.split(",") if asked.graphs else known
    if unknown := set(wanted) - set(known):
        parser.error(f"there is no set-up of {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    missed = 0
    for graph in wanted:
        table = Table(f"cornserve-prices-{graph}", COLUMNS)
        for row, is_met in map(priced, (each for each in every if each.graph == graph)):
            table.add(*row)
            missed += not is_met
        print(graph)
        table.show(asked.o)
    print("never dearer" if not missed else f"{missed} DEARER OR UNSOUND")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
