"""A demand split over places, against a fine grid of splits."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from control.allocator.cover import Cover, cover
from control.allocator.splitting import Key, Option, best_split, split_from_below

PARTS, SPLITS = 400, 80
item = st.tuples(st.floats(0.05, 1.2), st.floats(0.1, 5.0))
place = st.lists(item, min_size=1, max_size=3)
places = st.lists(st.tuples(place, place, st.floats(0, 2), st.floats(0, 4)), min_size=1, max_size=3)
Place = tuple[list[tuple[float, float]], list[tuple[float, float]], float, float]


def covers_of(made: list[Place], *, up: bool) -> dict[Key, Cover]:
    found = {}
    for z, (first, second, _, _) in enumerate(made):
        for k, things in enumerate((first, second)):
            sizes = np.array([s * PARTS for s, _ in things])
            whole = (np.ceil(sizes) if up else np.floor(sizes)).astype(np.int64)
            found[k, z] = cover(whole, np.array([c for _, c in things]), PARTS, [])
    return found


def options_of(made: list[Place], *, crossing: bool) -> tuple[Option, ...]:
    return tuple(
        Option(z, usd, (((0, z), 1.0), ((1, z), 1.0)), more if crossing else math.inf)
        for z, (_, _, usd, more) in enumerate(made)
    )


def exact_cost(things: list[tuple[float, float]], load: float) -> float:
    """The cheapest whole items that cover a load: every count of each that could be needed is tried."""
    if load <= 1e-12:
        return 0.0
    ranges = [range(math.ceil(load / s - 1e-12) + 1) for s, _ in things]
    best = math.inf
    for counts in itertools.product(*ranges):
        if sum(n * s for n, (s, _) in zip(counts, things, strict=True)) >= load - 1e-12:
            best = min(best, sum(n * c for n, (_, c) in zip(counts, things, strict=True)))
    return best


def grid_cost(made: list[Place], steps: int, *, crossing: bool) -> float:
    """Least cost over splits into steps, with what crosses leaving its second leg to the other places' items."""
    tables = [
        [[exact_cost(t, i / steps) for i in range(steps + 1)] for t in (first, second)] for first, second, _, _ in made
    ]
    best = math.inf
    shares = [s for s in itertools.product(range(steps + 1), repeat=len(made)) if sum(s) == steps]
    for enter in shares:
        for served in shares if crossing else [enter]:
            cost = 0.0
            for z, (_, _, usd, more) in enumerate(made):
                stays = min(enter[z], served[z])
                cost += tables[z][0][enter[z]] + tables[z][1][served[z]]
                cost += (enter[z] * usd + (enter[z] - stays) * more) / steps
            best = min(best, cost)
    return best


@settings(max_examples=60, deadline=None)
@given(places)
def test_the_bound_is_below_every_split(made: list[Place]) -> None:
    for crossing in (False, True):
        split = split_from_below(options_of(made, crossing=crossing), covers_of(made, up=True), SPLITS)
        assert split.least <= grid_cost(made, 8, crossing=crossing) + 1e-9


@settings(max_examples=60, deadline=None)
@given(places)
def test_a_split_found_serves_everything_and_costs_no_less_than_the_bound(made: list[Place]) -> None:
    options = options_of(made, crossing=False)
    found = best_split(options, covers_of(made, up=False), SPLITS)
    assert sum(share for _, share in found) == 1.0 or not found
    cost = sum(share * made[z][2] + exact_cost(made[z][0], share) + exact_cost(made[z][1], share) for z, share in found)
    bound = split_from_below(options, covers_of(made, up=True), SPLITS).least
    assert not found or bound <= cost + 1e-9


@settings(max_examples=60, deadline=None)
@given(places.filter(lambda made: len(made) == 1))
def test_one_place_is_bounded_by_its_own_covers(made: list[Place]) -> None:
    split = split_from_below(options_of(made, crossing=False), covers_of(made, up=True), SPLITS)
    slightly_less = sum(exact_cost(things, 1.0 - 10 / PARTS) for things in made[0][:2]) + made[0][2]
    everything = sum(exact_cost(things, 1.0) for things in made[0][:2]) + made[0][2]
    assert slightly_less - 1e-9 <= split.least + sum(max(c for _, c in t) for t in made[0][:2])
    assert split.least <= everything + 1e-9
