"""Covers of a load by whole items, against trying every combination."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from control.allocator.cover import cover

PARTS = 12
items = st.lists(st.tuples(st.integers(0, 7), st.floats(0, 9).map(lambda x: round(x, 2))), min_size=0, max_size=4)
copies = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=3)


def brute_force(sizes: list[int], costs: list[float], singles: list[tuple[int, float]]) -> list[float]:
    """Least cost of every load 0 … PARTS, each single copy used at most once."""
    best = [0.0] + [np.inf] * PARTS
    for taken in itertools.product([0, 1], repeat=len(singles)):
        size = sum(sizes[i] for (i, _), t in zip(singles, taken, strict=True) if t)
        cost = sum(c for (_, c), t in zip(singles, taken, strict=True) if t)
        start = [np.inf] * (PARTS + 1)
        for load in range(min(size, PARTS) + 1):
            start[load] = cost
        for load in range(1, PARTS + 1):
            for s, c in zip(sizes, costs, strict=True):
                if s > 0:
                    start[load] = min(start[load], start[max(0, load - s)] + c)
        best = [min(a, b) for a, b in zip(best, start, strict=True)]
    return best


@settings(deadline=None)  # the first example compiles
@given(items, copies)
def test_a_cover_costs_as_little_as_any_combination(
    made: list[tuple[int, float]], single: list[tuple[int, float]]
) -> None:
    sizes, costs = [s for s, _ in made], [c for _, c in made]
    singles = [(i, share * costs[i]) for i, share in single if i < len(made)]
    found = cover(np.array(sizes, dtype=np.int64), np.array(costs), PARTS, singles)
    np.testing.assert_allclose(found.least, brute_force(sizes, costs, singles), atol=1e-9)


@settings(deadline=None)  # the first example compiles
@given(items, copies)
def test_the_items_of_a_cover_reach_its_load_at_its_cost(
    made: list[tuple[int, float]], single: list[tuple[int, float]]
) -> None:
    sizes, costs = [s for s, _ in made], [c for _, c in made]
    singles = [(i, share * costs[i]) for i, share in single if i < len(made)]
    found = cover(np.array(sizes, dtype=np.int64), np.array(costs), PARTS, singles)
    for load in np.flatnonzero(np.isfinite(found.least)).tolist():
        used = found.items(load)
        assert sum(sizes[i] * n for i, n in used.items()) >= load
        cheaper = {i: sorted(c for j, c in singles if j == i) for i in used}
        least = sum(sum(cheaper[i][:n]) + costs[i] * max(0, n - len(cheaper[i])) for i, n in used.items())
        assert least <= found.least[load] + 1e-9
