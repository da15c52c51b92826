"""Whether plans end the requests of an any-to-any model in time: each type comes at random at its planned rate."""

from collections.abc import Mapping

import numpy as np

from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.graph_stations import executor_lives, routed_app
from control.simulator.serving.plan_timeline import planned_instances
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from templates_lib.apps.app import serving_id
from templates_lib.apps.app_work import AppWork
from templates_lib.graphs.request_type import due_of
from templates_lib.values.plan import Attained, Plan
from templates_lib.values.snapshot import Snapshot

MOST_OTHERS = 8
"""Requests of all types for each that is counted of the rarest, at most: rare types are counted less often."""


def app_attained(
    work: AppWork, plan: Plan, snapshot: Snapshot, counted: float, warm_up: float, after_s: float, seed: int
) -> dict[str, Attained]:
    """By work class, of the promised types that visit it, the one that is furthest from its promise. `plan`: with
    placements; `counted`: requests of each type; `warm_up`: share of the time whose requests are not counted."""
    types = {kind.name: kind for kind in work.app.types}
    routes = {route.id: route for route in snapshot.routes if route.app == work.app.name}
    rates: dict[str, float] = {}
    for flow in (flow for flow in plan.flows if flow.route in routes):
        kind = routes[flow.route].request_type
        rates[kind] = rates.get(kind, 0.0) + flow.requests_per_s
    if not rates:
        return {}
    names, total = tuple(rates), sum(rates.values())
    length_s = min(counted / min(rates.values()), MOST_OTHERS * counted / total) / (1 - warm_up)
    there = [each for each in planned_instances(plan) if each[1].model == work.app.name]
    lives = tuple(life for name, wanted in there for life in executor_lives(name, wanted, work))
    table = {model.id: model for model in routed_app(work, lives, plan, tuple(routes.values()))}
    served = {name: serving_id(work.app.name, name) for name in names}
    requests = _requests({served[name]: rates[name] for name in names}, length_s, seed)
    fleet = FleetTimeline(lives, ((0.0, tuple(table.values())),), length_s + after_s)
    result = simulate(requests, fleet, ServingSettings(admits=False))
    took_s = result.finish_s - requests.arrival_s
    counts = requests.arrival_s >= warm_up * length_s
    found: dict[str, Attained] = {}
    for number, name in enumerate(names):
        objective, due = types[name].objective, due_of(work.app.graph, types[name])
        asked = counts & (requests.app == number)
        if objective is None or not objective.percentile or not asked.any():
            continue
        share = float((took_s[asked] <= due.first_s + due.rest_s).mean())
        kept = Attained(share, objective.percentile, int(asked.sum()), seed)
        for work_class in {leg.work_class for route in table[served[name]].routes for leg in route.legs}:
            before = found.get(work_class)
            if before is None or _margin(kept) < _margin(before):
                found[work_class] = kept
    return found


def _margin(kept: Attained) -> float:
    return kept.share - kept.percentile / 100


def _requests(requests_per_s: Mapping[str, float], length_s: float, seed: int) -> Requests:
    """Draw arrivals at random (Poisson). What a request asks of each stage is the mean of its type."""
    draw, times, apps = np.random.default_rng(seed), [], []
    for number, rate in enumerate(requests_per_s.values()):
        count = int(draw.poisson(rate * length_s))
        times.append(draw.uniform(0, length_s, count))
        apps.append(np.full(count, number))
    arrival_s, app = np.concatenate(times), np.concatenate(apps)
    order = np.argsort(arrival_s, kind="stable")
    ones = np.ones(len(order), np.int32)
    return Requests(tuple(requests_per_s), app[order], arrival_s[order], ones, ones)
