"""The planner of cells against brute force, and its speed. Exits with 1 on a mismatch or a missed bar.

    python -m bench.cells [--graphs 500] [--topologies 100] [--regions 200] [--demands 50] [--seed 1]

Random graphs of at most 4 components, 7 deployment options and 16 GPUs: both variants of the network design problem,
the efficient cells and the exact mixture must equal brute force (`bench.cell_oracles`), and so must the corrected
program over two nodes. Of random cells and mixes, 0.98 of what is served has a schedule, and 1.02 a proof that there is
none. Then all cells up to 64 GPUs of six components, and a mixture for another load.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from bench.cell_oracles import (
    efficient_by_definition,
    fewest_gpus_by_force,
    fewest_gpus_of_cells,
    fewest_placed_by_force,
    most_requests_by_force,
    served,
)
from bench.random_graphs import NOTHING, random_problem
from templates_lib.cells.cell import efficient, exact_mixture, greedy_mixture, plan_cells
from templates_lib.cells.network_design import fewest_gpus, most_requests
from templates_lib.cells.problem import CellProblem, cell_problem
from templates_lib.cells.region import Schedule, Shortage, schedule_of
from templates_lib.cells.topology import Topology, fewest_gpus_as_printed, fewest_gpus_corrected
from templates_lib.executors.executor_graph import graph_of_options
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.rates import seconds_by_type
from templates_lib.graphs.component import Component, ComponentWork, Modality
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.values.work import Unit

SIZES = (1, 2, 4, 8, 16)
CELLS_S, MIX_S = 5.0, 0.010
SPEAKING = ("vision", "video", "hearing", "thinker", "talker", "vocoder")
"""The six components that the paper counts for Qwen-Omni (section 4.2)."""


def graphs(count: int, seed: int) -> int:
    """Mismatches of variants, cells and mixtures; prints how far Algorithm 2 is from the optimum."""
    wrong = greedy_wrong = mixtures = 0
    excess: list[float] = []
    ours_s = force_s = 0.0
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        problem, _ = random_problem(rng)
        start = time.perf_counter()
        plans = plan_cells(problem, SIZES[-1])
        middle = time.perf_counter()
        best = [most_requests_by_force(problem, size) for size in SIZES]
        ours_s, force_s = ours_s + middle - start, force_s + time.perf_counter() - middle
        good = np.allclose([plan.requests_per_s for plan in plans], best, rtol=1e-6, atol=0)
        target = best[-1] * rng.uniform(0.1, 1)
        plan = fewest_gpus(problem, target)
        good &= plan.gpus == fewest_gpus_by_force(problem, target, SIZES[-1])
        good &= plan.requests_per_s >= target * (1 - 1e-7)
        cells = efficient([plan.requests_per_s for plan in plans])
        good &= [cell.gpus for cell in cells] == efficient_by_definition(best)
        for wanted in best[-1] * rng.uniform(0.05, 5, 10):
            least, greedy = fewest_gpus_of_cells(cells, wanted), greedy_mixture(cells, wanted)
            good &= exact_mixture(cells, wanted).gpus == least
            mixtures, greedy_wrong = mixtures + 1, greedy_wrong + (greedy.gpus > least)
            excess.append(greedy.gpus / least - 1)
        wrong += not good
    each_ms, force_ms = ours_s * 1e3 / count, force_s * 1e3 / count
    print(f"{count} graphs: {wrong} differ from brute force ({force_ms:.1f} ms a graph, cells {each_ms:.1f} ms)")
    print(f"Algorithm 2 takes more GPUs than needed for {greedy_wrong} of {mixtures} loads, "
          f"{np.mean(excess):.2%} in the mean, {max(excess):.0%} at most")  # fmt: skip
    return wrong


def topologies(count: int, seed: int) -> int:
    wrong = printed_less = nowhere = 0
    for number in range(count):
        rng = np.random.default_rng([seed, 1, number])
        problem, traffic = random_problem(rng, 3, 3)
        wanted = most_requests(problem, 5).requests_per_s * rng.uniform(0.3, 1)
        if not wanted:
            continue
        sent = wanted * float(np.mean([move.bytes_per_request for moves in traffic for move in moves] or [1.0]))
        bandwidth = sent * 10 ** rng.uniform(-1.5, 0.5, (2, 2))
        np.fill_diagonal(bandwidth, np.inf)
        topology = Topology((3, 3), bandwidth)
        corrected = fewest_gpus_corrected(problem, traffic, topology, wanted)
        printed = fewest_gpus_as_printed(problem, traffic, topology, wanted)
        wrong += (corrected.gpus if corrected else None) != fewest_placed_by_force(problem, traffic, topology, wanted)
        nowhere += corrected is None
        printed_less += printed is not None and (corrected is None or printed.gpus < corrected.gpus)
    print(f"{count} topologies: {wrong} differ from trying every placement; {nowhere} demands fit nowhere;")
    print(f"  the printed program promises {printed_less} of them fewer GPUs than they need")
    return wrong


def regions(count: int, demands: int, seed: int) -> int:
    wrong = 0
    for number in range(count):
        rng = np.random.default_rng([seed, 2, number])
        problem, _ = random_problem(rng)
        plan = most_requests(problem, SIZES[-1])
        held = np.array([float(plan.replicas.get(option.name, 0)) for option in problem.options])
        for mix in rng.dirichlet(np.ones(len(problem.types)), demands):
            shares = dict(zip(problem.types, mix.tolist(), strict=True))
            edge, _ = served(CellProblem(problem.options, shares, problem.paths), held)
            inside = schedule_of(problem, plan.replicas, {name: 0.98 * edge * share for name, share in shares.items()})
            outside = schedule_of(problem, plan.replicas, {name: 1.02 * edge * share for name, share in shares.items()})
            fits = isinstance(inside, Schedule) and bool(
                np.all(problem.seconds @ np.array(inside.flows) <= held * (1 + 1e-7))
            )
            wrong += not (fits and isinstance(outside, Shortage) and outside.cost > outside.worth * 1.01)
    print(f"{count} cells of {demands} mixes each: {wrong} without a schedule at 0.98 or without a proof at 1.02")
    return wrong


def speaking_problem(seed: int) -> CellProblem:
    """Six components as in Qwen-Omni, eight request types, options alone and together, times near Table 1."""
    parts = tuple(Component(n, Unit.INVOCATION, NOTHING, 1, 1, answers=Modality.TEXT) for n in SPEAKING)
    chain = [GraphEdge(n, "thinker", 1, required=False) for n in SPEAKING[:3]]
    chain += [GraphEdge("thinker", "talker", 1), GraphEdge("talker", "vocoder", 1)]
    graph = ModelGraph("omni", "", parts, tuple(chain))
    inputs = (("vision",), ("vision", "video"), ("vision", "hearing"), ("vision", "video", "hearing"))
    mix = np.array([0.25 * 0.8] * 4 + [0.25 * 0.2] * 4)  # the paper's: half have video, half audio, a fifth speak
    sets = [(*each, "thinker", *spoken) for spoken in ((), SPEAKING[4:]) for each in inputs]
    types = [GraphRequestType("-".join(s), {n: ComponentWork(1) for n in s}, m) for s, m in zip(sets, mix, strict=True)]
    together = [("vision", "video"), ("vision", "video", "hearing"), ("vision", "video", "hearing", "thinker"),
                ("thinker", "talker"), ("talker", "vocoder"), ("thinker", "talker", "vocoder"), SPEAKING]  # fmt: skip
    options = [DeploymentOption((name,)) for name in SPEAKING] + [DeploymentOption(names) for names in together]
    options.append(DeploymentOption(("thinker",), 2))
    executors = graph_of_options(graph, types, options)
    rate = {"vision": 15.64, "video": 1.28, "hearing": 34.04, "thinker": 1.09, "talker": 1.0, "vocoder": 0.39}
    alone = {(name, kind.name): 1 / rate[name] for kind in types for name in SPEAKING}
    rng = np.random.default_rng(seed)
    factors = {o.name: float(rng.uniform(0.9, 1.1)) / o.gpus**0.9 for o in executors.options}
    return cell_problem(executors, types, seconds_by_type(executors, alone, factors))


def best_of(times: int, call: Callable[[], object]) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def speed(seed: int) -> int:
    problem = speaking_problem(seed)
    start = time.perf_counter()
    plans = plan_cells(problem, 64)
    cells_s = time.perf_counter() - start
    cells = efficient([plan.requests_per_s for plan in plans])
    load = 100.3 * cells[-1].requests_per_s
    mix_s = best_of(20, lambda: exact_mixture(cells, load))
    sizes, gpus = ", ".join(str(cell.gpus) for cell in cells), exact_mixture(cells, load).gpus
    print(f"six components, {len(problem.options)} options, {len(problem.paths)} paths:")
    print(f"  cells of {sizes} GPUs in {cells_s:.2f} s (bar {CELLS_S:g} s)")
    print(f"  a mixture of {gpus:,} GPUs in {mix_s * 1e3:.3f} ms (bar {MIX_S * 1e3:g} ms)")
    return int(cells_s > CELLS_S) + int(mix_s > MIX_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--topologies", type=int, default=100)
    parser.add_argument("--regions", type=int, default=200)
    parser.add_argument("--demands", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    missed = graphs(asked.graphs, asked.seed) + topologies(asked.topologies, asked.seed)
    missed += regions(asked.regions, asked.demands, asked.seed) + speed(asked.seed)
    print("all bars met" if not missed else f"{missed} MISSED")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
