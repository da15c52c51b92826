"""How requests come around a mean rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates_lib.load.arrivals import Arrivals


@given(
    rate=st.floats(0.01, 500),
    mean_requests=st.floats(0.5, 5000),
    cv=st.floats(0, 8),
    gaps=st.lists(st.floats(0, 100), max_size=30).filter(lambda gaps: not gaps or sum(gaps) > 0),
    seed=st.integers(0, 2**32 - 1),
)
def test_times_are_in_order_and_within_the_span(rate: float, mean_requests: float, cv: float, gaps, seed: int) -> None:
    length_s = mean_requests / rate
    times = Arrivals(cv, np.array(gaps)).times(rate, length_s, np.random.default_rng(seed))
    assert (np.diff(times) >= 0).all()
    assert ((times >= 0) & (times < length_s)).all()


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 3.0])
def test_drawn_gaps_have_the_rate_and_the_burstiness(cv: float) -> None:
    times = Arrivals(cv).times(20, 5000, np.random.default_rng(3))
    gaps = np.diff(times)
    assert len(times) / 5000 == pytest.approx(20, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.02 + 0.1 * cv)


@given(
    st.lists(st.floats(0.001, 100), min_size=1, max_size=30), st.integers(1, 20), st.floats(0.1, 50), st.integers(0, 99)
)
def test_recorded_gaps_come_again_and_again_at_the_rate(gaps: list[float], rounds: int, rate: float, seed: int) -> None:
    count = rounds * len(gaps)
    times = Arrivals(1.0, np.array(gaps)).times(rate, count / rate, np.random.default_rng(seed))
    assert abs(len(times) - count) <= 1  # the last one may come at the very end
    recorded, found = np.array(gaps) / np.mean(gaps) / rate, np.diff(times)
    turned = [np.tile(np.roll(recorded, -turn), rounds + 1)[: len(found)] for turn in range(len(gaps))]
    assert not len(found) or any(np.allclose(found, each, rtol=1e-6, atol=1e-9 / rate) for each in turned)


@pytest.mark.parametrize(
    ("cv", "gaps"), [(-1, []), (float("nan"), []), (float("inf"), []), (1, [-1.0, 2]), (1, [0.0, 0.0]), (1, [np.inf])]
)
def test_what_is_no_arrival_law_is_refused(cv: float, gaps: list[float]) -> None:
    with pytest.raises(ValueError, match="arrivals"):
        Arrivals(cv, np.array(gaps))
