"""What requests of a plan wait for their KV cache, in simulation: streamed while prompts are computed, and sent whole.

    python -m bench.hand_offs_of_plans [--setup core|extended] [--seed N]

Medley's plan for templates that promise percentile 99 serves ten minutes of Poisson arrivals at its rates, behind two
minutes of warm-up. `wait` is the time from a request's first token until its KV cache is at the decode instance: as
long as the prefill instance could go on with the answer. `step` is the median time per output token; `longer` the share
of requests that wait for longer than that, to whom the prefill instance could bring a token sooner.
"""

import argparse
from dataclasses import replace

import numpy as np

from bench.evaluation.methods import checked_plan
from bench.evaluation.offered_load import offered_load
from bench.evaluation.rated_sets import pipeline_recipe
from bench.evaluation.table import Table
from bench.scenarios import set_up
from control.planning.recipe import Recipe
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate

WARM_UP_S, COUNTED_S, AFTER_S = 120.0, 600.0, 300.0


def show(requests: Requests, fleet: FleetTimeline, table: Table, *, streams_kv: bool) -> None:
    served = simulate(requests, fleet, replace(ServingSettings(), streams_kv=streams_kv))
    gaps = np.maximum(requests.output_tokens - 1, 1)
    tpot_ms = 1000 * (served.finish_s - served.first_token_s) / gaps
    wait_ms = 1000 * np.maximum(served.handed_s - served.first_token_s, 0.0)
    for number, app in enumerate(requests.apps):
        counted = (requests.app == number) & (requests.arrival_s >= WARM_UP_S) & np.isfinite(served.handed_s)
        counted &= served.outcome == Outcome.SERVED
        if not counted.any():
            continue  # none of its answers was handed over
        step_ms = float(np.median(tpot_ms[counted]))
        half, most, nearly_all = np.percentile(wait_ms[counted], (50, 90, 99))
        longer = float((wait_ms[counted] > step_ms).mean())
        no_room = float((served.accepted_s > served.first_token_s)[counted].mean())
        how = "streamed" if streams_kv else "whole"
        waits = f"{half:.1f}", f"{most:.1f}", f"{nearly_all:.1f}"
        shares = f"{100 * longer:.1f} %", f"{100 * no_room:.1f} %"
        table.add(app, how, f"{int(counted.sum())}", *waits, f"{step_ms:.1f}", *shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", choices=("core", "extended"), default="core")
    parser.add_argument("--seed", type=int, default=20261122)
    arguments = parser.parse_args()
    with set_up(arguments.setup, keep=True) as made:
        plan = checked_plan("medley", made.snapshot, made.templates.library)
        recipe, until_s = pipeline_recipe(made), WARM_UP_S + COUNTED_S
        placed = made.templates.placed(plan)[0]
        fleet = timeline_of_plan(placed, Recipe((recipe,)), made.snapshot.routes, until_s + AFTER_S)
        requests = offered_load(plan, made.snapshot, recipe, until_s, arguments.seed)
    columns = ("model", "KV cache", "requests", "wait, median ms", "90 %", "99 %", "step", "longer", "waited for room")
    table = Table("hand-offs", columns)
    for streams_kv in (True, False):
        show(requests, fleet, table, streams_kv=streams_kv)
    table.show(None)


if __name__ == "__main__":
    main()
