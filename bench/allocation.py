"""The allocator against its bars: seconds to a good plan and to a proof, cost, bound.

    python -m bench.allocation [--case TEXT ...] [--runs 5]      the table; exits 1 when a bar is missed
    python -m bench.allocation --search SECONDS [--case TEXT]    look longer for a better plan than the best known
    python -m bench.allocation --plain [--case TEXT]             ten minutes of plain HiGHS on the full model

The best known objective of a snapshot is the lowest that any run found, kept in bench/best_known.json under the
snapshot's hash with the command that found it. Times are medians over the runs; plans must be the same in all of them,
pass the independent check, and be bounded by no more than the best known. Peak memory is the process's so far, the
making of the library included. Percentages beside costs are relative to the best known.
"""

import argparse
import math
import resource
import statistics
import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from bench import best_known
from bench.allocation_cases import Case, cases
from bench.best_known import BestKnown, Plain
from control.allocator import solve
from control.allocator.highs import HighsMilp
from control.allocator.problem import read_problem
from control.allocator.program import Effort
from control.allocator.restricted import restrict_to
from control.checker import check
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

COMMAND = "python -m bench.allocation"
PLAIN_SECONDS = 600.0
PROVEN_GAP = 0.01
THAN_PLAIN = 0.001
ROUNDING = 1e-6
"""Of the objective: what the solver's tolerances may add to a bound or take from a cost."""


@dataclass(frozen=True, slots=True)
class Run:
    plan: Plan
    seconds: float
    heard: tuple[tuple[float, float, float], ...]
    """(seconds, objective, bound) of everything that the search reported."""

    def first(self, limit: float) -> float:
        """Seconds to the first plan of at most this objective; infinity for never."""
        return next((at for at, objective, _ in self.heard if objective <= limit), math.inf)

    def proven(self, gap: float) -> float:
        plans = ((at, objective, bound) for at, objective, bound in self.heard if objective < math.inf)
        return next((at for at, objective, bound in plans if objective - bound <= gap * objective), math.inf)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[], help="only cases whose name contains this")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--search", type=float, metavar="SECONDS")
    parser.add_argument("--plain", action="store_true")
    chosen = parser.parse_args()
    wanted = [c for c in cases() if not chosen.case or any(text in c.name for text in chosen.case)]
    if chosen.search:
        return _search(wanted, chosen.search)
    if chosen.plain:
        return _plain([c for c in wanted if c.bars.plain])
    _warm_up(wanted)
    print(
        f"{'case':<36}{'columns':>12}{'near, s':>9}{'1 %, s':>8}{'done, s':>9}{'cost':>11}{'best known':>12}"
        f"{'plain':>10}{'bound':>11}{'gap':>8}{'GiB':>6}"
    )
    missed = [text for case in wanted for text in _measured(case, chosen.runs)]
    for text in missed:
        print(f"missed: {text}")
    return 1 if missed else 0


def _warm_up(wanted: list[Case]) -> None:
    """Compiled code is read from its cache once a process, not once a plan."""
    if wanted:
        solve(*wanted[0].make())


def _measured(case: Case, runs: int) -> list[str]:
    """Print the case's row; the bars that it misses."""
    snapshot, library = case.make()
    done = [_run(snapshot, library) for _ in range(runs)]
    plan = done[0].plan
    known = best_known.keep(snapshot.version, case.name, plan.objective, f"{COMMAND} --case '{case.name}'")
    near = statistics.median(run.first((1 + case.bars.near) * known.objective) for run in done)
    proven = statistics.median(run.proven(PROVEN_GAP) for run in done)
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{case.name:<36}{int(plan.statistics['columns']):>12,}{near:>9.2f}{proven:>8.2f}"
        f"{statistics.median(run.seconds for run in done):>9.2f}{plan.objective:>11.3f}{known.objective:>12.3f}"
        f"{_beside(known):>10}{plan.bound:>11.3f}{plan.gap:>8.2%}{peak_gib:>6.1f}",
        flush=True,
    )
    return _missed(case, done, snapshot, known, near, proven)


def _beside(known: BestKnown) -> str:
    return f"{known.plain.objective / known.objective - 1:+.2%}" if known.plain else "-"


def _run(snapshot: Snapshot, library: Library) -> Run:
    heard: list[tuple[float, float, float]] = []
    began = time.perf_counter()

    def progress(stage: str, objective: float, bound: float) -> None:
        del stage
        heard.append((time.perf_counter() - began, objective, bound))

    plan = solve(snapshot, library, progress=progress)
    seconds = time.perf_counter() - began
    return Run(plan, seconds, (*heard, (seconds, plan.objective, plan.bound)))


def _missed(case: Case, done: list[Run], snapshot: Snapshot, known: BestKnown, near: float, proven: float) -> list[str]:
    bars, plan, missed = case.bars, done[0].plan, []
    if near > bars.near_s:
        missed.append(f"{near:.1f} s, not {bars.near_s:g} s, to a plan within {bars.near:.1%} of the best known")
    if bars.proof_s is not None and proven > bars.proof_s:
        missed.append(f"{proven:.1f} s, not {bars.proof_s:g} s, to a proven gap of {PROVEN_GAP:.0%}")
    if bars.plain and known.plain is None:
        missed.append(f"no run of plain HiGHS is kept: `{COMMAND} --plain --case '{case.name}'`")
    if known.plain and plan.objective > (1 + THAN_PLAIN) * known.plain.objective:
        missed.append(f"{plan.objective:.3f} is dearer than plain HiGHS' {known.plain.objective:.3f}")
    if max(run.plan.bound for run in done) > (1 + ROUNDING) * known.objective:
        missed.append(f"the bound {plan.bound:.3f} exceeds the best known {known.objective:.3f}")
    if len({run.plan.id for run in done}) > 1:
        missed.append("the plans of equal runs differ")
    missed += [f"the plan does not hold: {violation.text}" for violation in check(plan, snapshot)]
    return [f"{case.name}: {text}" for text in missed]


def _search(wanted: list[Case], seconds: float) -> int:
    for case in wanted:
        snapshot, library = case.make()
        limits = replace(
            snapshot.settings.limits, gap=0.0, nodes=10**9, simplex_iterations=10**12, wall_clock_s=seconds
        )
        plan = solve(replace(snapshot, settings=replace(snapshot.settings, limits=limits)), library)
        command = f"{COMMAND} --search {seconds:g} --case '{case.name}'"
        known = best_known.keep(snapshot.version, case.name, plan.objective, command)
        print(f"{case.name:<36}{plan.objective:>11.3f}  best known {known.objective:.3f}, bound {plan.bound:.3f}")
    return 0


def _plain(wanted: list[Case]) -> int:
    for case in wanted:
        snapshot, library = case.make()
        problem = read_problem(snapshot, library)
        upper = problem.frame.row_upper.copy()
        upper[[level.row for level in problem.frame.levels]] = 0.0
        whole = restrict_to(problem, problem.columns.all(), upper, problem.frame.variables.cost, cost=True)
        effort = Effort(0.0, np.iinfo(np.int32).max, 10**12, snapshot.settings.seed, PLAIN_SECONDS)
        answer = HighsMilp()(whole.program, effort, None, lambda _: None)
        command = f"{COMMAND} --plain --case '{case.name}'"
        plain = Plain(answer.objective, answer.bound, answer.seconds, command)
        known = best_known.keep(snapshot.version, case.name, answer.objective, command, plain)
        print(f"{case.name:<36}{answer.objective:>11.3f}  best known {known.objective:.3f}, {answer.seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
