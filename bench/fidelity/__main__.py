"""The simulator against the real local runtime, on the same open-loop requests.

    python -m bench.fidelity [--kept FOLDER] [--only SHAPE] [--tasks N] [--plot FILE]

Two passes make the real runs, and sweeps before and behind those of each shape measure profiles: every shape on nodes
of the local cloud under their quotas, at 30, 60 and 90 % of its templates' throughput, Poisson arrivals, varied
lengths. The simulator gets the same requests and the profiles of the sweeps beside them, nothing else. Printed for each
run: |simulated - real| / real of every request's time to first token (prefill) and time per further token (decode), in
the mean and at the 99th percentile; that of their distributions (`curve`); and, as the floor, how far the two real runs
are from each other. The bar is the paper's own error (5.6 % prefill, 7.2 % decode) or 1.5 times the floor, whichever is
larger.

Runs are kept, and what is kept is not measured again. Exits 1 where a bar is missed, 2 where runs are missing.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from bench.fidelity.campaign import LOADS, PASSES, run_path, sweeps_beside, tasks
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
    for shape in shapes:
        recipe = recipe_with(pooled(sweeps_beside(folder, shape)))
        for load in LOADS:
            runs = [read(run_path(folder, shape, load, number)) for number in PASSES]
            one, other = map(real, runs)
            made = simulated(runs[0], recipe)
            curves[shape, load] = [one, other, made]
            for phase, bar in BARS.items():
                of = [getattr(each, f"{phase}_s") for each in (one, other, made)]
                found.append(comparison(shape, load, phase, bar, (of[0], of[1]), of[2]))
            others = ", ".join(f"{run.others_cores:.2f}" for run in runs)
            print(f"{shape} at {load:.0%}: {len(one.prefill_s)} requests; others used {others} processors", flush=True)
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
