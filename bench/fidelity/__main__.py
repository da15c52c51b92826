"""The simulator against the real local runtime, on the same open-loop requests.

    python -m bench.fidelity [--kept FOLDER] [--only SHAPE] [--tasks N] [--plot FILE]

Three passes make the real runs, and sweeps before, between and behind the shapes measure profiles: every shape on nodes
of the local cloud under their quotas, at 30, 60 and 90 % of its templates' throughput, Poisson arrivals, varied
lengths. The simulator gets the same requests and the profiles of the sweeps, nothing else. Printed for each shape and
load: |simulated - real| / real of every request's time to first token (prefill) and time per further token (decode), in
the mean and at the 99th percentile, over the real runs; that of their distributions (`curve`); and, as the floor, how
far the real runs are from each other. The bar is the paper's own error (5.6 % prefill, 7.2 % decode) or 1.5 times the
floor, whichever is larger. It takes three quarters of an hour to one, in which nothing else may run here.

Runs are kept, and what is kept is not measured again. Exits 1 where a bar is missed, 2 where runs are missing.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from bench.fidelity.campaign import LOADS, PASSES, run_path, sweep_homes, tasks
from bench.fidelity.comparison import Comparison, comparison
from bench.fidelity.plot import draw
from bench.fidelity.recording import read
from bench.fidelity.shapes import SHAPES, recipe_with
from bench.fidelity.simulated import Latencies, real, simulated
from bench.pooled_profiles import pooled
from control.db.location import home_directory

BARS = {"prefill": 0.056, "decode": 0.072}
"""Coral, section 6.2."""


def compared(folder: Path, shapes: tuple[str, ...], plot: Path | None) -> list[Comparison]:
    curves: dict[tuple[str, float], list[Latencies]] = {}
    found = []
    recipe = recipe_with(pooled(sweep_homes(folder)))
    for shape in shapes:
        for load in LOADS:
            runs = [read(run_path(folder, shape, load, number)) for number in PASSES]
            made = simulated(runs[0], recipe)
            curves[shape, load] = [made, *map(real, runs)]
            for phase, bar in BARS.items():
                simulation, *reals = (getattr(each, f"{phase}_s") for each in curves[shape, load])
                found.append(comparison(shape, load, phase, bar, reals, simulation))
            others = ", ".join(f"{run.others_cores:.2f}" for run in runs)
            took = ", ".join(f"{run.nodes_cpu_s / runs[0].nodes_cpu_s:.3f}" for run in runs)
            print(
                f"{shape} at {load:.0%}: {len(made.prefill_s)} requests; nodes took {took} of the first pass's "
                f"processor time, others used {others} processors",
                flush=True,
            )
    if plot is not None:
        draw(curves, plot)
    return found


def show(one: Comparison) -> str:
    found, floor = one.simulation, one.floor
    return (
        f"| {one.shape} | {one.load:.0%} | {one.phase} | {found.mean:.1%} | {found.p99:.0%} | {found.curve:.1%} | "
        f"{found.bias:+.1%} | {floor.mean:.1%} | {floor.p99:.0%} | {floor.curve:.1%} | {one.bar:.1%} | "
        f"{'met' if one.is_met else 'missed'} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, help="folder of the recordings; default: in MEDLEY_HOME")
    parser.add_argument("--only", choices=SHAPES, help="one of the shapes")
    parser.add_argument("--tasks", type=int, help="measure no more than so many of what is missing")
    parser.add_argument("--plot", type=Path, help="PNG of the distributions, side by side")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nodes are given back
    folder = arguments.kept or home_directory(os.environ) / "fidelity"
    folder.mkdir(parents=True, exist_ok=True)
    shapes = (arguments.only,) if arguments.only else tuple(SHAPES)
    missing = [task for task in tasks(folder, shapes) if not task.is_done]
    for task in missing[: arguments.tasks]:
        began_s = time.monotonic()
        task.do()
        print(f"{task}: measured in {time.monotonic() - began_s:.0f} s", flush=True)
    left = sum(not task.is_done for task in missing)
    if left:
        print(f"{left} more to measure")
        return 2
    found = compared(folder, shapes, arguments.plot)
    print("| shape | load | phase | error | p99 | curve | bias | floor | p99 | curve | bar | |\n" + "|---" * 12 + "|")
    print("\n".join(map(show, found)))
    return int(not all(one.is_met for one in found))


if __name__ == "__main__":
    sys.exit(main())
