"""Units of systems to come are planned and then simulated at what the plan counts on: a request of three legs, a unit
that two models share, a cell of which requests may go two ways."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from control.allocator import solve
from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.simulator.serving.batch_model import BatchModel, station_of
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from templates_lib.apps.app import serving_id
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Route
from tests.control.simulator.serving.batch_reference import ReferenceSimulation, batch_seconds, least_seconds
from tests.properties.test_shapes_to_come import FOLDER, library_of, read, recipe_of, source_of

NAMES = ("three_legs", "shared_mesh", "two_paths")
LENGTH_S, END_S = 400.0, 600.0
UNREFUSED = ServingSettings(admits=False, max_waiting=1_000_000, request_timeout_s=1e6)


@dataclass(frozen=True)
class Planned:
    snapshot: Snapshot
    plan: Plan
    fleet: FleetTimeline


@cache
def planned(name: str) -> Planned:
    recording = read(FOLDER / f"{name}.json")
    snapshot = versioned(replace(recording.snapshot, library_version="library-1"))
    plan = solve(snapshot, library_of(source_of(recording)))
    templates = {each.template().id: each.template() for each in recipe_of(recording).templates}
    plan = replace(plan, instances=tuple(each.with_template(templates[each.template_id]) for each in plan.instances))
    fleet = timeline_of_plan(plan, Recipe((recipe_of(recording),)), snapshot.routes, END_S)
    return Planned(snapshot, plan, fleet)


def poisson(world: Planned, times: float, seed: int = 1) -> Requests:
    """So many times the demand that the plan was made for, in `LENGTH_S` seconds."""
    dice = np.random.default_rng(seed)
    apps = tuple(serving_id(demand.app, demand.request_type) for demand in world.snapshot.demand)
    come = [
        (at_s, app)
        for app, demand in enumerate(world.snapshot.demand)
        for at_s in dice.uniform(0, LENGTH_S, dice.poisson(times * demand.requests_per_s * LENGTH_S)).tolist()
    ]
    come.sort()
    ones = np.ones(len(come), np.int64)
    return Requests(apps, np.array([app for _, app in come]), np.array([at_s for at_s, _ in come]), ones, ones)


def routes_of(world: Planned, requests: Requests, served: Served) -> dict[int, Route]:
    """Of each request that went any way: the route whose classes its instances serve."""
    found = {}
    for n in range(len(requests)):
        lives = [world.fleet.instances[place] for place in served.places[n] if place >= 0]
        for route in world.snapshot.routes:
            is_own = serving_id(route.app, route.request_type) == requests.apps[requests.app[n]]
            serving = zip(route.legs, lives, strict=False)
            if is_own and len(route.legs) == len(lives) and all(a.work_class in b.work_classes for a, b in serving):
                found[n] = route
    return found


@pytest.mark.parametrize("name", NAMES)
def test_at_the_planned_rate_every_request_passes_all_its_legs(name: str) -> None:
    world = planned(name)
    requests = poisson(world, 1.0)
    served = simulate(requests, world.fleet, UNREFUSED)
    assert (served.outcome == Outcome.SERVED).all()
    assert len(routes_of(world, requests, served)) == len(requests)
    assert (served.finish_s > requests.arrival_s).all()
    assert np.quantile(served.finish_s - requests.arrival_s, 0.99) < 30


@pytest.mark.parametrize("name", NAMES)
def test_the_promised_flows_are_taken_and_admission_lets_them_pass(name: str) -> None:
    world = planned(name)
    requests = poisson(world, 1.0)
    served = simulate(requests, world.fleet)
    assert (served.outcome == Outcome.SERVED).mean() > 0.97
    went = Counter(route.id for route in routes_of(world, requests, served).values())
    flows: Counter[str] = Counter()
    for flow in world.plan.flows:
        flows[flow.route] += flow.requests_per_s
    for route, rate in flows.items():
        assert went[route] / LENGTH_S == pytest.approx(rate, rel=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_overloaded_units_stay_inside_their_capacity_and_nothing_is_lost(name: str) -> None:
    world = planned(name)
    requests = poisson(world, 3.0)
    fleet = replace(world.fleet, length_s=LENGTH_S)
    served = simulate(requests, fleet, UNREFUSED)
    counted = Counter(served.outcome.tolist())
    assert counted[Outcome.SERVED] + counted[Outcome.UNFINISHED] == len(requests)
    assert counted[Outcome.UNFINISHED] > 0
    units: list[Counter[str]] = [Counter() for _ in fleet.instances]
    for n, route in routes_of(world, requests, served).items():
        if served.outcome[n] == Outcome.SERVED:
            for leg, place in zip(route.legs, served.places[n], strict=False):
                units[place][leg.work_class] += leg.units_per_request
    for life, own in zip(fleet.instances, units, strict=True):
        assert isinstance(life.station, BatchModel)
        if own:
            assert least_seconds(life.station.points, own) <= LENGTH_S * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_lone_request_takes_what_its_legs_and_transfers_take(name: str) -> None:
    world = planned(name)
    apps = tuple(serving_id(demand.app, demand.request_type) for demand in world.snapshot.demand)
    count = 40
    ones = np.ones(count, np.int64)
    requests = Requests(apps, np.arange(count) % len(apps), 10.0 * np.arange(count), ones, ones)
    served = simulate(requests, world.fleet, UNREFUSED)
    found = routes_of(world, requests, served)
    for n in range(count):
        lives = [world.fleet.instances[place] for place in served.places[n] if place >= 0]
        done_s = [0.0] * len(lives)
        for number, (leg, life) in enumerate(zip(found[n].legs, lives, strict=True)):
            assert isinstance(life.station, BatchModel)
            there_s = [
                done_s[edge.source]
                + edge.bytes_per_request / min(lives[edge.source].station.bytes_per_s, life.station.bytes_per_s)
                for edge in found[n].edges
                if edge.target == number
            ]
            done_s[number] = max(there_s, default=0.0) + batch_seconds(
                life.station, {leg.work_class: leg.units_per_request}
            )
        assert served.finish_s[n] - requests.arrival_s[n] == pytest.approx(done_s[-1], abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_simulation_is_that_of_the_reference(name: str) -> None:
    world = planned(name)
    requests = poisson(world, 0.02)
    served = simulate(requests, world.fleet, UNREFUSED)
    calls = ReferenceSimulation(requests, world.fleet).run(END_S)
    np.testing.assert_allclose(served.finish_s, [call.finish_s for call in calls], rtol=0, atol=1e-9)


def test_a_shared_unit_does_more_together_than_one_model_after_the_other() -> None:
    world = planned("shared_mesh")
    shared = next(life.station for life in world.fleet.instances if len(life.work_classes) == 2)
    assert isinstance(shared, BatchModel)
    both, one = {"chat/decode": 600.0, "code/decode": 500.0}, {"chat/decode": 600.0}
    assert batch_seconds(shared, both) < batch_seconds(shared, one) + batch_seconds(shared, {"code/decode": 500.0})


def test_a_placement_that_says_the_impossible_of_its_batches_is_refused() -> None:
    recording = read(FOLDER / "three_legs.json")
    listed = recipe_of(recording).templates[0]
    assert station_of(listed, recording.snapshot.routes, {}).batch_s == pytest.approx(16 * 576 / 6000)
    bad = replace(listed, placement=replace(listed.placement, payload={"batch": -1}))
    with pytest.raises(ValueError, match="batch"):
        station_of(bad, recording.snapshot.routes, {})
