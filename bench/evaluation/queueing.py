"""Whether plans keep their objectives when requests queue: every plan of the evaluation in simulation.

Templates are certified for throughput, as the paper's; `attainment` is about plans that are certified for a percentile.
`$/h` is the average cost, starts included, of what serves the share `served` of the demand.

Each plan serves ten minutes of Poisson arrivals at the rates it was made for, with lengths of its own shapes, after two
minutes of warm-up. A class keeps its objective when 99 % of its requests do. The bar is that of the utilisation cap:
95 % of all (plan, class); every class that misses is named by what made most of its requests late.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import market
from bench.evaluation.methods import NAMES, checked_plan
from bench.evaluation.objectives import Cause, Kept, kept
from bench.evaluation.offered_load import offered_load
from bench.evaluation.rated_sets import pipeline_recipe
from bench.evaluation.table import Table
from bench.scenarios import SetUp
from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.simulator.serving.plan_timeline import timeline_of_plan
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

WARM_UP_S, COUNTED_S, AFTER_S = 120.0, 600.0, 300.0
SEED = 20261122
ATTAINED, BAR = 0.99, 0.95
ATTAINMENT = ("attain 99 %", "median", "tenth", *Cause, "worst")
CAPS = (0.85, 0.7, 0.5, 0.35, 0.2)


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Whether BAR of all (plan, class) attain ATTAINED."""
    columns = ("market", "method", "$/h", "served", "plans", "classes", *ATTAINMENT)
    table = Table("queueing", columns)
    each = Table("queueing-classes", ("market", "method", "epoch", "class", "attained", "p99", "objective", *Cause))
    every: list[Kept] = []
    for setup in campaign.setups:
        for kind in campaign.kinds:
            for method in campaign.methods:
                found: dict[tuple[int, str], Kept] = {}
                epochs = campaign.epochs(setup, kind, method)
                for epoch in epochs:
                    of = serve(campaign.set_up(setup), epoch.plan, epoch.made.snapshot)
                    found |= {(epoch.number, name): value for name, value in of.items()}
                every += found.values()
                usd_per_hour = np.mean([epoch.usd_per_hour for epoch in epochs])
                share = np.mean([epoch.served_share for epoch in epochs])
                cost = f"{usd_per_hour:.2f}", f"{100 * share:.0f} %"
                table.add(f"{setup} {kind}", NAMES[method], *cost, *_summary(found))
                for (number, name), value in sorted(found.items()):
                    each.add(
                        f"{setup} {kind}", NAMES[method], f"{number}", name, f"{100 * value.attainment:.2f} %",
                        f"{value.p99_ms:.0f} ms", f"{value.objective_ms:.0f} ms",
                        *(f"{100 * value.causes[cause]:.2f} %" for cause in Cause),
                    )  # fmt: skip
    print("Objectives kept in simulation; causes: classes that miss, by what makes most of their requests late")
    table.show(folder)
    if folder is not None:
        each.show(folder)
    good = sum(value.attainment >= ATTAINED for value in every)
    print(f"{good} of {len(every)} (plan, class) attain {100 * ATTAINED:.0f} %: {100 * good / len(every):.1f} %\n")
    if "medley" in campaign.methods:
        _show_caps(campaign, folder)
    return good >= BAR * len(every)


def serve(made: SetUp, plan: Plan, snapshot: Snapshot) -> dict[str, Kept]:
    """Work class → how it fares under the load that `plan` was made for."""
    recipe = pipeline_recipe(made)
    until_s = WARM_UP_S + COUNTED_S
    fleet = timeline_of_plan(made.templates.placed(plan)[0], Recipe((recipe,)), snapshot.routes, until_s + AFTER_S)
    requests = offered_load(plan, snapshot, recipe, until_s, SEED)
    return kept(requests, fleet, {s.name: s.slo for s in recipe.served}, WARM_UP_S, until_s)


def _summary(found: dict[tuple[int, str], Kept]) -> tuple[str, ...]:
    attained = np.array([value.attainment for value in found.values()])
    good = float((attained >= ATTAINED).mean())
    missed = Counter(value.cause for value in found.values() if value.attainment < ATTAINED)
    (epoch, name), worst = min(found.items(), key=lambda item: item[1].attainment)
    return (
        f"{len({number for number, _ in found})}",
        f"{len(found)}",
        f"{100 * good:.0f} %",
        f"{100 * np.median(attained):.1f} %",
        f"{100 * np.percentile(attained, 10):.1f} %",
        *(f"{missed[cause]}" for cause in Cause),
        f"{name}, epoch {epoch}: {100 * worst.attainment:.1f} %",
    )


def _show_caps(campaign: Campaign, folder: Path | None) -> None:
    """Medley's plan for the mean demand under other caps."""
    print("Medley's plan at other utilisation caps, balanced demand at its mean")
    table = Table("caps", ("set-up", "cap", "$/h", *ATTAINMENT))
    for setup in campaign.setups:
        made = campaign.set_up(setup)
        base = market(made, "balanced")
        for cap in CAPS:
            snapshot = versioned(replace(base, settings=replace(base.settings, utilisation_cap=cap)))
            plan = checked_plan("medley", snapshot, made.templates.library)
            found = {(0, name): value for name, value in serve(made, plan, snapshot).items()}
            table.add(setup, f"{cap:g}", f"{plan.usd_per_hour:.2f}", *_summary(found)[2:])
    table.show(folder)
