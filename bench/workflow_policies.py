"""Who dispatches calls of workflows best, in simulation: what `python -m bench.workflows compare` does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.workflow_scenarios import MEMORY_GIB, PICKLED, SCENARIOS, TENSORS, client_rates, runs_of, services_of
from control.simulator.workflows.place_cluster import PlaceCluster, PlaceLinks
from control.simulator.workflows.replica_dispatch import RayServeLike, TritonLike
from control.simulator.workflows.simulated_run import OpenRun, SimulatedRun
from control.simulator.workflows.workflow_dispatch import Greedy, InTurn, Speculative, WorkflowDispatch
from control.simulator.workflows.workflow_simulation import WorkflowSimulation
from policies.workflows.call_placement import compile_placement

CELL, MACHINE = 32, 8
SHIFT = {"GILL": 2.0, "KNOWLEDGECARD": 0.5, "DEBATE": 0.5}


@dataclass(frozen=True, slots=True)
class Outcome:
    runs: list[OpenRun]
    loads: int
    calls_per_batch: float
    homes: tuple[frozenset[str], ...]
    """Of each place, what it held longest."""

    def mean_s(self, from_s: float = 0.0, until_s: float = np.inf) -> float:
        """Mean latency of runs that were asked for in that time."""
        return float(np.mean([run.latency_s for run in self.runs if from_s <= run.given.asked_s < until_s]))


def simulated(
    runs: Sequence[SimulatedRun], apps: Sequence[str], places: int, links: PlaceLinks, dispatch: WorkflowDispatch
) -> Outcome:
    cluster = PlaceCluster(services_of(apps), places, memory_gib=MEMORY_GIB, links=links)
    simulation = WorkflowSimulation(cluster, dispatch)
    ended = simulation.run(runs)
    loads = sum(place.loads for place in cluster.places)
    homes = tuple(place.longest_held(cluster.now_s) for place in cluster.places)
    return Outcome(ended, loads, float(np.mean([calls for _, calls in simulation.batches])), homes)


class Comparison:
    def __init__(self, folder: Path, minutes: float) -> None:
        self._length_s = minutes * 60
        self._clients = client_rates(folder, self._length_s)
        self.missed: list[str] = []

    def cell(self, name: str, shift: dict[str, float] | None = None) -> dict[str, Outcome]:
        """Speculative placement and both baselines on a cell."""
        apps, rate = SCENARIOS[name]
        runs = runs_of(apps, self._clients, rate * CELL, self._length_s, shift or {})
        shown = f"{name}{', shifted' if shift else ''}, {CELL} places"
        found = {"speculative": self._shown(shown, "speculative", runs, apps, CELL, TENSORS, Speculative(26))}
        homes = found["speculative"].homes
        if shift:  # what was best before
            before = [run for run in runs if run.asked_s < self._length_s / 2]
            homes = simulated(before, apps, CELL, TENSORS, Speculative(26)).homes
        found["Ray-Serve-like"] = self._shown(shown, "Ray-Serve-like", runs, apps, CELL, PICKLED, RayServeLike(26))
        found["Triton-like"] = self._shown(shown, "Triton-like", runs, apps, CELL, PICKLED, TritonLike(homes))
        return found

    def machine(self, name: str) -> dict[str, Outcome]:
        """The ways to place calls, on one machine."""
        apps, rate = SCENARIOS[name]
        runs = runs_of(apps, self._clients, rate * MACHINE, self._length_s, {})
        made: dict[str, Callable[[], WorkflowDispatch]] = {
            "speculative": lambda: Speculative(26), "greedy": Greedy, "round robin": InTurn
        }  # fmt: skip
        shown = f"{name}, {MACHINE} places"
        return {each: self._shown(shown, each, runs, apps, MACHINE, TENSORS, make()) for each, make in made.items()}

    def bar(self, what: str, is_met: bool) -> None:
        print(f"{'met   ' if is_met else 'MISSED'} {what}", flush=True)
        if not is_met:
            self.missed.append(what)

    def halves_s(self, outcome: Outcome) -> tuple[float, float]:
        """Return the mean latency in the second quarter, behind the start, and in the last, behind the shift."""
        quarter_s = self._length_s / 4
        return outcome.mean_s(quarter_s, 2 * quarter_s), outcome.mean_s(3 * quarter_s)

    def _shown(
        self,
        shown: str,
        who: str,
        runs: Sequence[SimulatedRun],
        apps: Sequence[str],
        places: int,
        links: PlaceLinks,
        dispatch: WorkflowDispatch,
    ) -> Outcome:
        found = simulated(runs, apps, places, links, dispatch)
        p95_s = float(np.percentile([run.latency_s for run in found.runs], 95))
        print(
            f"{shown:30} {who:15} {len(runs):6} runs, mean {found.mean_s():7.2f} s, p95 {p95_s:7.2f} s, "
            f"{found.loads:6} loads, {found.calls_per_batch:5.2f} calls a batch",
            flush=True,
        )
        return found


def compare(folder: Path, minutes: float) -> int:
    """Print mean latencies and bars; return 1 where one is missed."""
    if not folder.is_dir():
        print(f"ServeGen's clients are needed, and {folder} is not there: name the folder of traces with --traces")
        return 1
    compile_placement()
    comparison = Comparison(folder, minutes)
    for name in SCENARIOS:
        found = comparison.cell(name)
        own_s, least_s = found["speculative"].mean_s(), min(found[each].mean_s() for each in list(found)[1:])
        if name == "DEBATE":
            more = own_s / least_s - 1
            comparison.bar(f"{name}: {more:+.1%} of the better baseline, at most +2 %", more <= 0.02)
        else:
            comparison.bar(f"{name}: {least_s / own_s - 1:+.1%} faster than the better baseline", own_s < least_s)
    shifted = {who: comparison.halves_s(each) for who, each in comparison.cell("MIX", SHIFT).items()}
    for who, (before_s, after_s) in shifted.items():
        is_like = after_s <= 1.1 * before_s
        if who == "speculative":
            comparison.bar(f"shift: {who} {before_s:.2f} s, then {after_s:.2f} s, within 10 %", is_like)
        elif who == "Triton-like":
            comparison.bar(f"shift: {who} {before_s:.2f} s, then {after_s:.2f} s, not within 10 %", not is_like)
    _machines(comparison)
    return int(bool(comparison.missed))


def _machines(comparison: Comparison) -> None:
    better = []
    for name in SCENARIOS:
        found = {who: each.mean_s() for who, each in comparison.machine(name).items()}
        own_s, greedy_s, turns_s = found["speculative"], found["greedy"], found["round robin"]
        comparison.bar(f"{name}: {own_s / greedy_s - 1:+.1%} of greedy, at most +2 %", own_s <= 1.02 * greedy_s)
        if name in ("GILL", "MIX"):
            better.append(own_s < greedy_s)
        if name != "DEBATE":
            comparison.bar(f"{name}: round robin is worst", turns_s > max(own_s, greedy_s))
    comparison.bar("better than greedy on GILL or MIX", any(better))
