"""What it brings to choose how a latency objective is split over the stages, instead of giving each the same share.

    python -m bench.uneven_slo [--setup core|extended|real-clouds] [--n-max 4]

Every node set of a set-up is placed both ways, nothing pruned: the gain in throughput of the sets that an even split
serves, how many sets only an uneven one serves, and the seconds that either takes. The even split is on the uneven
one's grid of sixtieths, so that no set may lose; exits with 1 if one does.
"""

import argparse
import sys
import time

import numpy as np
from numpy.typing import NDArray

from bench.setups import EXAMPLES, SETUPS
from control.planning.world import read_world
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.enumeration import NodeSets, node_sets
from templates_lib.hardware import load_gpus
from templates_lib.pipeline_source import TICKS
from templates_lib.placement_solver.search import find_placements
from templates_lib.throughput.budgets import even_budgets, uneven_budgets
from templates_lib.throughput.tables import throughput_table

TOLERANCE = 1e-9


def placed(units: NDArray[np.float64], sets: NodeSets, *, even_split: bool) -> tuple[NDArray[np.float64], float]:
    """Units/s of every set (0: none), and the seconds it took."""
    start = time.perf_counter()
    found = find_placements(units, sets, even_split=even_split, prune=False, advance=lambda _: None)
    served = np.zeros(sets.size)
    served[found.rows] = found.units_per_s
    return served, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", choices=SETUPS, default="core")
    parser.add_argument("--n-max", type=int, default=4, help="most nodes of a set, at most 6 (default 4)")
    arguments = parser.parse_args()
    recipe, gpus = read_world(EXAMPLES / SETUPS[arguments.setup]).recipe, load_gpus()
    cost_model = estimated_cost_model(gpus)
    offered = [frozenset(bag) for bag in recipe.zone_bags]
    print(
        f"{'':32} {'sets':>8} {'better':>7} {'only so':>8} {'median':>8} {'p90':>8} {'most':>8}   seconds even, uneven"
    )
    worse = 0
    for served in recipe.served:
        for phase in served.phases:
            slo_ms = served.slo_ms(phase)
            sets = node_sets(served.model, recipe.nodes, gpus, offered, arguments.n_max, recipe.rho)
            both, seconds = [], []
            for budgets in (even_budgets(slo_ms, arguments.n_max), uneven_budgets(slo_ms, TICKS)):
                table = throughput_table(served, phase, recipe.nodes, gpus, cost_model, budgets)
                units_per_s, took = placed(table.units_per_s, sets, even_split=not both)
                both.append(units_per_s)
                seconds.append(took)
            even, uneven = both
            gain = uneven[even > 0] / even[even > 0] - 1
            worse += int((gain < -TOLERANCE).sum())
            figures = (
                [float(f) for f in (np.median(gain), np.percentile(gain, 90), gain.max())] if len(gain) else [0.0] * 3
            )
            shown = " ".join(f"{figure:8.1%}" for figure in figures)
            counts = f"{len(gain):8,} {int((gain > TOLERANCE).sum()):7,} {int(((uneven > 0) & (even == 0)).sum()):8,}"
            print(f"{served.class_id(phase):32} {counts} {shown}   {seconds[0]:.2f}, {seconds[1]:.2f}", flush=True)
    print(f"sets that lose: {worse}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
