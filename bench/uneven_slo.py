"""What it brings to choose how a latency objective is split over the stages, instead of giving each the same share.

    python -m bench.uneven_slo [--setup core|extended|real-clouds] [--n-max 4]

Every node set of a set-up is placed both ways, nothing pruned: the gain in throughput of the sets that an even split
serves, how many sets only an uneven one serves, and the seconds that either takes. Then the set-up is planned both
ways. The even split is on the uneven one's grid of sixtieths, so that no set may lose and no plan may have to cost
more; exits with 1 if one does.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.setups import EXAMPLES, SETUPS
from control.db.database import open_database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.session import PlanningSession
from control.planning.world import World, read_world
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.placement_solver.search import find_placements
from templates_lib.sources.enumeration import NodeSets, node_sets
from templates_lib.sources.pipeline_source import TICKS, even_budgets, uneven_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.hardware import load_gpus
from templates_lib.values.settings import SloSplit

TOLERANCE = 1e-9
NOW = "2026-11-21T00:00:00+00:00"


def placed(units: NDArray[np.float64], sets: NodeSets, *, even_split: bool) -> tuple[NDArray[np.float64], float]:
    """Units/s of every set (0: none), and the seconds it took."""
    start = time.perf_counter()
    found = find_placements(units, sets, even_split=even_split, prune=False, advance=lambda _: None)
    served = np.zeros(sets.size)
    served[found.rows] = found.units_per_s
    return served, time.perf_counter() - start


def compare_sets(world: World, n_max: int) -> int:
    """Print a line for each work class and engine; how many sets lose."""
    recipe, gpus = world.recipe, load_gpus()
    cost_model = estimated_cost_model(gpus)
    offered = [frozenset(bag) for bag in recipe.zone_bags]
    names = "".join(f"{name:>9}" for name in ("sets", "better", "only so", "median", "p90", "most"))
    print(f"{'':32}{names}   seconds even, uneven")
    worse = 0
    for served in (each for whole in recipe.served for each in whole.by_engine()):
        for phase in served.phases:
            slo_ms = served.slo_ms(phase)
            sets = node_sets(served.model, recipe.nodes, gpus, offered, n_max, recipe.rho)
            both, seconds = [], []
            for budgets in (even_budgets(slo_ms, n_max), uneven_budgets(slo_ms, TICKS)):
                table = throughput_table(served, phase, recipe.nodes, gpus, cost_model, budgets)
                units_per_s, took = placed(table.units_per_s, sets, even_split=not both)
                both.append(units_per_s)
                seconds.append(took)
            even, uneven = both
            gain = uneven[even > 0] / even[even > 0] - 1
            worse += int((gain < -TOLERANCE).sum())
            figures = [np.median(gain), np.percentile(gain, 90), gain.max()] if len(gain) else [0.0] * 3
            counts = len(gain), int((gain > TOLERANCE).sum()), int(((uneven > 0) & (even == 0)).sum())
            shown = "".join(f"{count:9,}" for count in counts) + "".join(f"{float(f):9.1%}" for f in figures)
            print(
                f"{f'{served.class_id(phase)} by {served.engine}':32}{shown}   {seconds[0]:.2f}, {seconds[1]:.2f}",
                flush=True,
            )
    return worse


def compare_plans(world: World, n_max: int) -> bool:
    """Whether the plan costs no more with uneven splits, beyond the gap that a plan may have; prints both costs."""
    plans = {}
    with tempfile.TemporaryDirectory(prefix="medley-bench-") as home, open_database(data_dir=Path(home)) as database:
        session = PlanningSession(
            PostgresLibraries(database), PostgresPlans(database), lambda *_: None, time.perf_counter
        )
        for split in SloSplit:
            recorded = session.record(replace(world, recipe=replace(world.recipe, slo_split=split, n_max=n_max)), NOW)
            plans[split] = session.plan(*recorded, baselines=False).plan
    for split, plan in plans.items():
        print(f"plan with {split.value:6} splits: {plan.usd_per_hour:.2f} $/h, unmet {sum(plan.unmet.values()):.3g}/s")
    even, uneven = plans[SloSplit.EVEN], plans[SloSplit.UNEVEN]
    print(f"uneven splits save {1 - uneven.usd_per_hour / even.usd_per_hour:.1%}")
    return uneven.bound <= even.objective * (1 + TOLERANCE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", choices=SETUPS, default="core")
    parser.add_argument("--n-max", type=int, default=4, help="most nodes of a set, at most 6 (default 4)")
    arguments = parser.parse_args()
    world = read_world(EXAMPLES / SETUPS[arguments.setup])
    worse = compare_sets(world, arguments.n_max)
    print(f"sets that lose: {worse}")
    cheaper = compare_plans(world, arguments.n_max)
    return 0 if cheaper and not worse else 1


if __name__ == "__main__":
    sys.exit(main())
