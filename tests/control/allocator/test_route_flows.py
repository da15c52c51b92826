"""Flows on the edges of routes, against every choice of a zone for every leg."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from control.allocator import solve
from control.allocator.problem import read_problem
from control.checker import check
from templates_lib.values.settings import Mode, Settings, Survive, WorkLimits
from templates_lib.values.work import Edge
from tests.control.allocator.allocation_cases import World, random_world
from tests.control.allocator.exact_allocation import exact_optimum
from tests.control.allocator.route_cases import line, route_world

seeds = st.integers(0, 10**6)


def is_exact(world: World) -> None:
    exact, plan = exact_optimum(world), solve(world.snapshot, world.library)
    assert check(plan, world.snapshot) == ()
    assert sum(plan.unmet.values()) == pytest.approx(sum(exact.unmet_by_level), abs=1e-4)
    tolerance = 2e-5 * max(1.0, exact.objective)
    assert plan.bound <= exact.objective + tolerance
    assert plan.objective == pytest.approx(exact.objective, abs=tolerance)


@settings(max_examples=60, deadline=None)
@given(seeds)
@example(10350)
def test_trees_cost_what_the_best_choice_of_zones_costs(seed: int) -> None:
    is_exact(route_world(seed))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_long_routes_whose_demands_share_nothing_but_supply_do_too(seed: int) -> None:
    world = route_world(seed, least_legs=4)
    shapes = tuple(replace(s, points=(dict([min(s.points[0].items())]),)) for s in world.shapes)
    nothing = replace(world.settings, survive=Survive.NOTHING)
    is_exact(replace(world, shapes=shapes, settings=nothing))


@pytest.mark.parametrize("seed", range(40))
def test_a_route_of_two_legs_has_one_hop_for_every_pair_of_zones(seed: int) -> None:
    world = random_world(seed)
    routing = read_problem(world.snapshot, world.library).routing
    price = {(t.source, t.target): t.usd_per_gb for t in world.traffic}
    for tree in routing.trees:
        served = [{p for h in routing.hops for k, p, _ in h.load if k == leg} for leg, _ in tree.load]
        pairs = [
            zones
            for zones in itertools.product(*served)
            if len({routing.places[z] for z in zones}) == 1 or tuple(routing.places[z] for z in zones) in price
        ]
        assert sum(int((hops >= 0).sum()) for hops in tree.hops) == len(pairs)


def joined(world: World, edges: tuple[Edge, ...]) -> World:
    """The world with these edges in every route of four legs, and no loss to survive."""
    routes = tuple(replace(r, edges=edges) for r in world.routes if len(r.legs) == 4)
    quiet = Settings(mode=Mode.ZONES, limits=WorkLimits(gap=1e-6))
    return replace(world, routes=routes, settings=quiet)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([((0, 1), (0, 2), (1, 3), (2, 3)), ((0, 1), (1, 2), (2, 1), (2, 3))]))
def test_branches_that_join_and_cycles_lie_in_one_zone(seed: int, ends: tuple[tuple[int, int], ...]) -> None:
    world = joined(route_world(seed, least_legs=4), tuple(Edge(a, b, 1e8) for a, b in ends))
    plan = solve(world.snapshot, world.library)
    assert check(plan, world.snapshot) == ()
    legs = (1, 2) if (2, 1) in ends else (0, 1, 2, 3)
    assert all(len({flow.zones[leg] for leg in legs}) == 1 for flow in plan.flows)
    # Where all legs are in a loop it is as if nothing could cross.
    if len(legs) == 4:
        is_exact(replace(world, traffic=()))
        assert plan.objective == pytest.approx(solve(replace(world, traffic=()).snapshot, world.library).objective)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_zones_without_capacity_for_a_leg_are_never_its_own(seed: int) -> None:
    world = route_world(seed)
    plan = solve(world.snapshot, world.library)
    have = {(k, i.zone) for i in plan.instances for k in i.units_per_s}
    routes = {r.id: r for r in world.routes}
    if world.settings.mode is Mode.ZONES:
        for flow in plan.flows:
            assert {(leg.work_class, z) for leg, z in zip(routes[flow.route].legs, flow.zones, strict=True)} <= have


def size(legs: int, zones: int) -> tuple[int, int]:
    world = line(legs, zones)
    frame = read_problem(world.snapshot, world.library).frame
    return len(frame.hop_variables), len(frame.balance_rows)


def test_the_program_grows_linearly_with_legs_and_with_pairs_of_zones() -> None:
    for legs, zones in itertools.product((2, 5, 12), (1, 4, 10)):
        assert size(legs, zones) == ((legs - 1) * zones**2, (legs - 2) * zones)


def test_twelve_legs_over_ten_zones_are_planned_and_checked() -> None:
    world = line(12, 10)
    plan = solve(world.snapshot, world.library)
    assert check(plan, world.snapshot) == ()
    assert plan.status == "optimal"
    assert sum(flow.requests_per_s for flow in plan.flows) == pytest.approx(world.demand[0].requests_per_s)
    assert plan == solve(world.snapshot, world.library)
