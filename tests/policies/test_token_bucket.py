"""A limit per minute: bursts, refills, debts."""

from hypothesis import given
from hypothesis import strategies as st

from policies.token_bucket import TokenBucket


def test_a_minutes_worth_may_come_at_once_and_then_as_fast_as_it_fills():
    bucket = TokenBucket(60.0, 0.0)
    for _ in range(60):
        assert bucket.wait_s(1.0, 0.0) == 0
        bucket.take(1.0, 0.0)
    assert bucket.wait_s(1.0, 0.0) == 1.0
    assert bucket.wait_s(1.0, 1.0) == 0
    assert bucket.full_in_s(1.0) == 59.0


def test_work_that_turns_out_larger_is_a_debt_and_smaller_is_given_back():
    bucket = TokenBucket(60.0, 0.0)
    bucket.take(20.0, 0.0)
    bucket.take(70.0, 0.0)
    assert bucket.left(0.0) == -30.0
    assert bucket.wait_s(10.0, 0.0) == 40.0
    bucket.take(-40.0, 0.0)
    assert bucket.wait_s(10.0, 0.0) == 0


def test_what_is_larger_than_the_bucket_goes_through_when_that_is_full():
    bucket = TokenBucket(60.0, 0.0)
    assert bucket.wait_s(1000.0, 0.0) == 0
    bucket.take(1000.0, 0.0)
    assert bucket.wait_s(1.0, 0.0) == 941.0


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0.1, 200)), max_size=50), st.floats(1, 1000))
def test_over_any_time_no_more_goes_through_than_a_burst_and_the_rate(asked: list[tuple[float, float]], limit: float):
    bucket, now_s, through, largest = TokenBucket(limit, 0.0), 0.0, 0.0, 0.0
    for gap_s, units in asked:
        now_s += gap_s
        if bucket.wait_s(units, now_s) == 0:
            bucket.take(units, now_s)
            through += units
            largest = max(largest, units)
    assert through <= limit + now_s * limit / 60 + largest + 1e-6
