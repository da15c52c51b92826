"""The placement solver against the paper's ILP on models of real depth. Exits with 1 on a mismatch.

    python -m bench.placement_vs_ilp [--limit 60] [--nodes 3,4] [--cases 1]

For each of the extended set-up's models and phases, `--cases` random node sets of each size that can serve: T̂ from the
cost model, the ILP of Coral (section 4.2) solved by HiGHS once per depth with `--limit` seconds each. Where the ILP was
proven, both must agree to 1e-6; where its time ran out, the placement must be at least its best and at most its bound.
An ILP that the Gurobi licence of this machine is large enough for (the free one: 2000 variables, 2000 rows) is solved
by Gurobi too, and must come out the same. Prints limit, status and times.
"""

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.placement_oracles.best_placement import best_placement
from bench.placement_oracles.every_depth import reference_optimum
from bench.placement_oracles.gurobi import solve_where_licensed
from bench.placement_oracles.highs import solve_with_highs
from bench.placement_oracles.outcome import Outcome
from bench.placement_oracles.placement_ilp import PlacementIlp
from bench.setups import EXAMPLES, SETUPS
from control.planning.world import read_world
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.sources.enumeration import node_sets
from templates_lib.sources.pipeline_source import even_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.hardware import load_gpus

TOLERANCE = 1e-6

Case = tuple[str, NDArray[np.float64], tuple[int, ...], tuple[str, ...]]
"""Work class, T̂ (4, B, C, L), configuration index of each node, configuration ids."""


def cases(sizes: list[int], each: int, seed: int) -> Iterator[Case]:
    """Node sets that need more than one stage first: a set of one stage is no test of a placement."""
    recipe, gpus = read_world(EXAMPLES / SETUPS["extended"]).recipe, load_gpus()
    cost_model, rng = estimated_cost_model(gpus), np.random.default_rng(seed)
    offered = [frozenset(bag) for bag in recipe.zone_bags]
    for served in recipe.served:
        for phase in served.phases:
            budgets = even_budgets(served.slo_ms(phase), max(sizes))
            table = throughput_table(served, phase, recipe.nodes, gpus, cost_model, budgets)
            sets = node_sets(served.model, recipe.nodes, gpus, offered, max(sizes), recipe.rho)
            for size in sizes:
                rows = np.arange(sets.first_of_size[size], sets.first_of_size[size + 1])
                chosen = 0
                for members in sets.members[rng.permutation(rows)][:, :size].tolist():
                    found = best_placement(table.units_per_s, {c: members.count(c) for c in members})
                    if found is not None and len(found.stages) > 1:
                        yield served.class_id(phase), table.units_per_s, tuple(members), table.configs
                        chosen += 1
                    if chosen == each:
                        break


class BothSolvers:
    """HiGHS, and Gurobi beside it where it is licensed."""

    def __init__(self) -> None:
        self.ilps = self.on_gurobi = self.differ = 0

    def __call__(self, ilp: PlacementIlp, units: NDArray[np.float64], limit_s: float) -> Outcome:
        by_highs = solve_with_highs(ilp, units, limit_s)
        by_gurobi = solve_where_licensed(ilp, units, limit_s)
        self.ilps += 1
        if by_gurobi is not None:
            self.on_gurobi += 1
            # A solver may take what falls short of the least by its tolerance, or may not.
            least = ilp.least * ilp.scale
            ours, theirs = max(by_highs.units_per_s, least), max(by_gurobi.units_per_s, least)
            self.differ += by_highs.proven and by_gurobi.proven and abs(theirs - ours) > TOLERANCE * ours
        return by_highs


def mismatches_of(cases: Iterator[Case], solve: BothSolvers, limit_s: float) -> int:
    """How many cases disagree with the ILP; prints a line for each case."""
    solved = proven = mismatches = 0
    ours_s = theirs_s = 0.0
    for work_class, units, nodes, configs in cases:
        start = time.perf_counter()
        placement = best_placement(units, {c: nodes.count(c) for c in nodes})
        middle = time.perf_counter()
        outcome = reference_optimum(units, nodes, solve, limit_s)
        end = time.perf_counter()
        ours_s, theirs_s = ours_s + middle - start, theirs_s + end - middle
        served = placement.units_per_s if placement else 0.0
        low, high = outcome.units_per_s * (1 - TOLERANCE), outcome.bound_units_per_s * (1 + TOLERANCE)
        agrees = low <= served <= (outcome.units_per_s * (1 + TOLERANCE) if outcome.proven else high)
        solved, proven, mismatches = solved + 1, proven + outcome.proven, mismatches + (not agrees)
        held = " + ".join(f"{nodes.count(c)} × {configs[c]}" for c in sorted(set(nodes)))
        verdict = "equal" if agrees and outcome.proven else "within its bound" if agrees else "MISMATCH"
        figures = (
            f"placement {served:12,.3f}  ILP {outcome.units_per_s:12,.3f} (bound {outcome.bound_units_per_s:,.3f})"
        )
        print(f"{work_class:24} {units.shape[3]:3} layers  {figures}  {outcome.status}, {verdict}  {held}", flush=True)
    print(f"{solved} cases, {proven} proven by the ILP, {mismatches} mismatches")
    ours_ms, ilp_s = ours_s * 1e3 / solved, theirs_s / solved
    print(f"placement {ours_ms:.2f} ms a set, ILP {ilp_s:.1f} s a set: {theirs_s / ours_s:,.0f} ×")
    return mismatches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a solver per depth (default 60)")
    parser.add_argument("--nodes", default="3,4", help="sizes of the node sets (default 3,4)")
    parser.add_argument("--cases", type=int, default=1, help="node sets per class and size (default 1)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.nodes.split(",")]
    print(f"HiGHS, one thread, limit {arguments.limit:g} s per depth")
    solve = BothSolvers()
    mismatches = mismatches_of(cases(sizes, arguments.cases, arguments.seed), solve, arguments.limit)
    print(f"{solve.on_gurobi} of {solve.ilps} ILPs on Gurobi too: {solve.differ} differ from HiGHS")
    return 1 if mismatches or solve.differ else 0


if __name__ == "__main__":
    sys.exit(main())
