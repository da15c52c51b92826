"""A pool is late beyond chance or not, and what was too little stays so for a while."""

from math import exp, lgamma, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.pools.app_pools import AppPools
from policies.pools.lateness import FORGOTTEN_S, Answers, Lateness, certain_count
from policies.pools.scaling_settings import ScalingSettings
from policies.pools.sizing import replicas

counts = st.integers(0, 5000)
loads = st.floats(0.01, 1e4)


def at_least(count: int, mean: float) -> float:
    """Probability that so many events come, or more, of a Poisson process."""
    return 1 - sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count))


@pytest.mark.parametrize("count", [2, 3, 5, 10, 30, 100, 300])
def test_a_count_is_certain_as_far_as_chance_seldom_makes_as_many_of_less(count: int) -> None:
    assert 1e-4 < at_least(count, certain_count(count)) < 2e-3


@given(counts)
def test_more_that_came_is_more_for_certain_and_never_all_of_it(count: int) -> None:
    assert 0 <= certain_count(count) <= certain_count(count + 1)
    assert certain_count(count) < count or count == 0


@given(counts, counts, st.floats(0.5, 0.999))
def test_answers_are_below_a_threshold_only_where_their_share_is(judged: int, missed: int, threshold: float) -> None:
    answers = Answers(judged + missed, judged)
    if answers.is_below(threshold):
        assert answers.share < threshold
        assert missed >= 2
        assert Answers(answers.judged + 1, judged).is_below(threshold), "one more that is late"
    assert not Answers(judged, judged).is_below(threshold)


def test_what_is_certainly_late_is_below() -> None:
    assert Answers(1000, 970).is_below(0.99)
    assert not Answers(1000, 985).is_below(0.99)
    assert not Answers(20, 19).is_below(0.99)
    assert not Answers().is_below(0.99)


@given(st.lists(st.tuples(st.floats(0, 600), loads, st.floats(1, 100)), min_size=1, max_size=30), loads)
def test_no_load_gets_less_than_was_too_little_for_a_smaller_one(
    noted: list[tuple[float, float, float]], load: float
) -> None:
    late, now_s, known = Lateness(ScalingSettings()), 0.0, []
    times: list[tuple[float, float]] = []
    for gap_s, at, enough in noted:
        now_s += gap_s
        times.append((now_s, at))
        late.take(now_s, at)
        late.note(now_s, enough)
        known.append((now_s, max(load for at_s, load in times if at_s >= now_s - ScalingSettings().calm_s), enough))
        assert late.peak == known[-1][1]
    late.take(now_s, load)
    fresh = [enough for at_s, at, enough in known if now_s - at_s < FORGOTTEN_S and at <= load]
    assert late.enough(now_s) >= max(fresh, default=0.0)
    assert late.enough(now_s + FORGOTTEN_S + 1) == 0
    late.take(now_s, min(at for _, at, _ in known) / 1.45)
    assert late.enough(now_s) == 0


members = st.lists(st.floats(0.1, 100), min_size=1, max_size=6)
of_pool = st.tuples(members, st.floats(0.01, 50), st.just(0.0) | st.floats(1e-9, 1000))
pools = st.dictionaries(st.sampled_from("abcd"), of_pool, min_size=1)


@given(pools)
def test_a_rate_of_an_app_asks_all_of_its_pools_for_as_much_as_its_load(
    made: dict[str, tuple[list[float], float, float]],
) -> None:
    units = {name: each for name, (_, each, _) in made.items()}
    app = AppPools({name: own for name, (own, _, _) in made.items()}, units)
    load = {name: asked for name, (_, _, asked) in made.items()}
    rate = app.requests_per_s(load)
    for own, each, asked in made.values():
        assert rate * each >= asked * (1 - 1e-9)
        assert app.sustained * each <= sum(own) * (1 + 1e-9)
    more = app.with_one_more(load)
    assert more > app.sustained
    assert any(replicas(more * each, sum(own) / len(own)) > len(own) for own, each, _ in made.values())
