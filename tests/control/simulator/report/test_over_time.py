"""Sums over spans agree with adding up each span by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.simulator.report.chart import cumulative
from control.simulator.report.over_time import amounts, epochs, spread

TIMES = st.floats(0, 1000)
SPANS = st.lists(st.tuples(TIMES, TIMES, st.floats(0, 100)), min_size=1, max_size=30)


@given(SPANS, st.floats(10, 2000), st.floats(1, 500))
def test_amounts_are_the_overlaps_of_each_span_with_each_epoch(
    spans: list[tuple[float, float, float]], length_s: float, epoch_s: float
) -> None:
    edges = epochs(length_s, epoch_s)
    begin, end, rate = np.array([(min(a, b), max(a, b), r) for a, b, r in spans]).T
    overlap = np.minimum(edges[1:, None], end) - np.maximum(edges[:-1, None], begin)
    expected = (np.maximum(overlap, 0) * rate).sum(axis=1)
    np.testing.assert_allclose(amounts(edges, begin, end, rate), expected, rtol=1e-9, atol=1e-4)


@given(SPANS)
def test_what_is_spread_adds_up_to_what_there_was(spans: list[tuple[float, float, float]]) -> None:
    edges = epochs(1000.0, 90.0)
    begin, end, amount = np.array([(min(a, b), max(a, b), r) for a, b, r in spans]).T
    assert spread(edges, begin, end, amount).sum() == pytest.approx(amount.sum(), rel=1e-6, abs=1e-6)


def test_the_last_epoch_may_be_shorter_and_none_is_empty() -> None:
    assert epochs(25.0, 10.0).tolist() == [0.0, 10.0, 20.0, 25.0]
    assert epochs(20.0, 10.0).tolist() == [0.0, 10.0, 20.0]


def test_a_thinned_distribution_keeps_its_tail_and_its_end() -> None:
    x, y = cumulative(np.arange(1.0, 100_001.0))
    assert (x[0], x[-1], y[-1]) == (1.0, 100_000.0, 1.0)
    assert np.interp(0.999, y, x) == pytest.approx(99_900, rel=1e-3)
    assert (np.diff(x) >= 0).all()
