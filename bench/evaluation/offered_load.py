"""Requests as a plan expects them."""

from control.planning.recipe import PipelineRecipe
from control.simulator.attainment import planned_requests
from control.simulator.serving.requests import Requests
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


def offered_load(plan: Plan, snapshot: Snapshot, recipe: PipelineRecipe, length_s: float, seed: int) -> Requests:
    """At the rates that the plan serves: what it leaves unmet does not come."""
    app_of = {route.id: route.app for route in snapshot.routes}
    rates = {served.name: 0.0 for served in recipe.served}
    for flow in plan.flows:
        rates[app_of[flow.route]] += flow.requests_per_s
    return planned_requests(rates, recipe.served, length_s, seed)
