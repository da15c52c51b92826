"""The worst j consecutive layers, against brute force."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from templates_lib.cost.layer_mix import wider_counts, worst_mix


@given(st.lists(st.sampled_from([0, 128]), min_size=1, max_size=14), st.floats(0, 10), st.floats(0, 10))
def test_two_kinds_of_windows_are_exact(windows: list[int], narrow: float, extra: float) -> None:
    kinds, counts = wider_counts(tuple(windows))
    cost = {128: narrow, 0: narrow + extra}
    for j in range(1, len(windows) + 1):
        worst = max(sum(cost[w] for w in windows[i : i + j]) for i in range(len(windows) - j + 1))
        found, below = 0.0, 0.0
        for i, kind in enumerate(kinds):
            found += (cost[kind] - below) * counts[i, j]
            below = cost[kind]
        assert np.isclose(found, worst)


@given(st.lists(st.sampled_from([0, 64, 128, 512]), min_size=1, max_size=14))
def test_many_kinds_are_bounded_from_above_and_exact_for_all_layers(windows: list[int]) -> None:
    kinds, counts = wider_counts(tuple(windows))
    cost = {w: float(w or 1000) for w in kinds}
    steps = np.diff([0.0, *(cost[k] for k in kinds)])
    sums = steps @ counts
    assert (np.diff(sums) >= 0).all()
    assert np.isclose(sums[-1], sum(cost[w] for w in windows))
    for j in range(1, len(windows) + 1):
        worst = max(sum(cost[w] for w in windows[i : i + j]) for i in range(len(windows) - j + 1))
        assert sums[j] >= worst - 1e-9


@given(st.integers(1, 12), st.integers(0, 12), st.floats(0, 5), st.floats(0, 5))
def test_leading_layers_of_another_price(total: int, leading: int, first: float, other: float) -> None:
    leading = min(leading, total)
    prices = [first] * leading + [other] * (total - leading)
    for j in range(1, total + 1):
        worst = max(sum(prices[i : i + j]) for i in range(total - j + 1))
        found = worst_mix(np.array(float(j)), leading, total, np.array(first), np.array(other))
        assert np.isclose(found, worst)
