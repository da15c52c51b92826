"""Plans that promise a percentile (`slo.keep`) against plans for throughput, and in simulations they have not seen.

Every method is certified by the same loop (`control.planning.promise`) under the same dispatch, on the same snapshot. A
(plan, class) keeps its promise in a simulation where its share of requests in time is at least the percentile's, as
`medley plan` prints it. `ratio` is the cost over the same method's plan for throughput; `served` the share of the
demand.

The bars are Medley's: 99 % of (plan, class, seed) keep percentile 99 with seeds that no certificate has seen, at 1.6
times the cost of throughput at most for core, balanced, 1.25 for extended, balanced, and 1.4 in the median of all.
"""

import time
from pathlib import Path
from statistics import median

from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import demand_share, market
from bench.evaluation.methods import NAMES, checked_plan
from bench.evaluation.table import Table
from bench.scenarios import SetUp
from control.planning.promise import Promise, promised
from control.planning.recipe import Recipe
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.snapshot import Snapshot

SEEDS = (20261125, 20261126, 20261127)
KEPT_BAR = 0.99
RATIO_BARS = {("core", "balanced"): 1.6, ("extended", "balanced"): 1.25}
MEDIAN_BAR = 1.4


def run(campaign: Campaign, folder: Path | None) -> bool:
    columns = ("market", "method", "throughput $/h", "kept $/h", "ratio", "served", "s", "certified", "kept", "worst")
    table = Table("attainment", columns)
    ratios: dict[tuple[str, str], float] = {}
    outcomes: list[bool] = []
    for setup in campaign.setups:
        plain, made = campaign.set_up(setup), campaign.promised(setup)
        for kind in campaign.kinds:
            base = market(made, kind)
            for method in campaign.methods:
                cost = checked_plan(method, market(plain, kind), plain.templates.library).usd_per_hour
                began_s = time.perf_counter()
                found = planned_promise(made, base, method)
                took_s = time.perf_counter() - began_s
                kept = unseen(made, found, campaign.seeds(SEEDS))
                worst = min(kept, key=lambda each: each[2])
                good = [share >= percentile / 100 for _, percentile, share in kept]
                usd = found.plan.usd_per_hour
                served = demand_share(found.plan, base)
                table.add(
                    f"{setup} {kind}", NAMES[method], f"{cost:.2f}", f"{usd:.2f}", f"{usd / cost:.2f}",
                    f"{100 * served:.0f} %", f"{took_s:.1f}", "yes" if found.is_kept else "no",
                    f"{sum(good)} of {len(good)}", f"{worst[0]}: {100 * worst[2]:.2f} %",
                )  # fmt: skip
                if method == "medley":
                    outcomes += good
                    ratios[setup, kind] = usd / cost
    table.show(folder)
    if not outcomes:
        return True
    share, middle = sum(outcomes) / len(outcomes), median(ratios.values())
    print(f"{sum(outcomes)} of {len(outcomes)} (plan, class, seed) of Medley keep the percentile: {100 * share:.1f} %")
    print(f"cost over throughput, median of {len(ratios)}: {middle:.2f}\n")
    within = all(ratios.get(case, 0.0) <= bar for case, bar in RATIO_BARS.items())
    return share >= KEPT_BAR and within and middle <= MEDIAN_BAR


def planned_promise(made: SetUp, snapshot: Snapshot, method: str) -> Promise:
    library = made.templates.library
    return promised(snapshot, lambda under: checked_plan(method, under, library), attainment_of(made, 0))


def unseen(made: SetUp, found: Promise, seeds: tuple[int, ...]) -> list[tuple[str, float, float]]:
    """(class, percentile, share in time), for each class and seed."""
    runs = (attainment_of(made, seed, is_even=False)(found.plan, found.snapshot) for seed in seeds)
    return [(name, each.percentile, each.share) for run in runs for name, each in run.items()]


def attainment_of(made: SetUp, seed: int, *, is_even: bool = True) -> SimulatedAttainment:
    recipe = made.recording.recipe
    assert isinstance(recipe, Recipe)
    return SimulatedAttainment(recipe, made.templates, seed, is_even)
