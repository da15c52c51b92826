"""Forecasts: what they say of rates whose future is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from policies.forecast import Ewma, Forecast, Last
from policies.headroom_forecast import Headroom
from policies.seasonal_forecast import Seasonal

HOUR_S, DAY_S = 3600.0, 86_400.0
EVERY: tuple[Forecast, ...] = (
    Last(),
    Ewma(900.0),
    Seasonal(DAY_S, 3600.0),
    Headroom(Ewma(900.0), 0.9, DAY_S),
    Headroom(Seasonal(DAY_S, 3600.0), 0.9, DAY_S),
)


def waves(days: int) -> np.ndarray:
    """Hourly rates that are the same every day."""
    return np.tile(10 + 8 * np.sin(np.arange(24) / 24 * 2 * np.pi), days)


@pytest.mark.parametrize("policy", EVERY, ids=repr)
@given(past=hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1e6)), steps=st.integers(1, 30))
def test_whatever_was_the_rates_to_come_are_finite_and_not_negative(policy: Forecast, past: np.ndarray, steps: int):
    rates = policy.ahead(past, HOUR_S, steps)
    assert rates.shape == (steps,)
    assert np.isfinite(rates).all()
    assert (rates >= 0).all()


@pytest.mark.parametrize("policy", EVERY, ids=repr)
def test_a_rate_that_never_changes_goes_on(policy: Forecast):
    assert policy.ahead(np.full(100, 3.0), HOUR_S, 4) == pytest.approx([3.0] * 4)


def test_half_of_the_weight_lies_within_about_a_half_life():
    past = np.concatenate([np.zeros(400), np.ones(10)])
    assert Ewma(10 * 60.0).ahead(past, 60.0, 1)[0] == pytest.approx(0.5, abs=0.01)


def test_a_season_that_comes_back_is_foreseen_to_the_end_of_the_horizon():
    past = waves(3)
    assert Seasonal(DAY_S, HOUR_S).ahead(past, HOUR_S, 30) == pytest.approx(np.tile(waves(1), 2)[:30])


def test_a_season_is_taken_at_the_level_of_now():
    past = np.concatenate([waves(3), 2 * waves(1)[:20]])
    foreseen = Seasonal(DAY_S, HOUR_S).ahead(past, HOUR_S, 4)
    assert foreseen == pytest.approx(2 * waves(1)[20:24], rel=0.01)


def test_before_a_period_is_over_a_season_is_a_mean_of_the_recent():
    past = waves(1)[:12]
    assert Seasonal(DAY_S, HOUR_S).ahead(past, HOUR_S, 2) == pytest.approx(Ewma(HOUR_S).ahead(past, HOUR_S, 2))


def test_headroom_would_have_been_enough_as_often_as_it_says():
    rng = np.random.default_rng(7)
    rates = rng.gamma(20.0, 0.5, 600)
    policy = Headroom(Ewma(4 * HOUR_S), 0.9, 10 * DAY_S)
    enough = [policy.ahead(rates[:n], HOUR_S, 1)[0] >= rates[n] for n in range(300, 600)]
    assert np.mean(enough) == pytest.approx(0.9, abs=0.05)


def test_headroom_never_lowers_a_forecast():
    falling = np.linspace(100, 10, 60)
    plain, raised = Last(), Headroom(Last(), 0.5, DAY_S)
    assert raised.ahead(falling, HOUR_S, 1)[0] == plain.ahead(falling, HOUR_S, 1)[0]
