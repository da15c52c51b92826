"""Requests as a plan expects them: Poisson arrivals at its rates, lengths drawn from the shapes it was made for."""

import numpy as np

from control.planning.recipe import PipelineRecipe
from control.simulator.serving.requests import Requests
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def offered_load(plan: Plan, snapshot: Snapshot, recipe: PipelineRecipe, length_s: float, seed: int) -> Requests:
    """At the rates that the plan serves: what it leaves unmet does not come."""
    app_of = {route.id: route.app for route in snapshot.routes}
    rates = {served.name: 0.0 for served in recipe.served}
    for flow in plan.flows:
        rates[app_of[flow.route]] += flow.requests_per_s
    draw = np.random.default_rng(seed)
    columns = []
    for number, served in enumerate(recipe.served):
        count = int(draw.poisson(rates[served.name] * length_s))
        pick = draw.integers(len(served.shape.prompt_tokens), size=count)
        prompt, output = served.shape.prompt_tokens[pick], served.shape.output_tokens[pick]
        columns.append((np.full(count, number), draw.uniform(0, length_s, count), prompt, output))
    app, arrival_s, prompt, output = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(arrival_s, kind="stable")
    apps = tuple(served.name for served in recipe.served)
    return Requests(apps, app[order], arrival_s[order], prompt[order], output[order])
