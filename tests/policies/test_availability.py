"""What refusals teach, over any history of answers."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from policies.availability import (
    COOL_DOWNS,
    HALF_LIFE_S,
    LEAST_COOL_DOWN_S,
    CallOutcome,
    Learned,
    is_excluded,
    learn,
    nodes_to_count_on,
    success_estimate,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
REFUSALS = tuple(COOL_DOWNS)


def after(*outcomes: tuple[float, CallOutcome]) -> Learned:
    """Each at so many seconds after noon."""
    known: Learned | None = None
    for at_s, outcome in outcomes:
        known = learn(known, outcome, "because", NOON + timedelta(seconds=at_s))
    assert known is not None
    return known


def seconds(at_s: float) -> datetime:
    return NOON + timedelta(seconds=at_s)


def test_a_stock_out_is_avoided_for_a_minute_then_for_two_then_for_four() -> None:
    at_s, known = 0.0, None
    for wait_s in (60, 120, 240, 300, 300):
        known = learn(known, CallOutcome.STOCK_OUT, "", seconds(at_s))
        assert is_excluded(known, seconds(at_s + wait_s - 1))
        at_s += wait_s
        assert not is_excluded(known, seconds(at_s))


def test_answers_to_calls_that_were_under_way_are_one_shortage() -> None:
    one, eight = after((0, CallOutcome.STOCK_OUT)), after(*((n / 10, CallOutcome.STOCK_OUT) for n in range(8)))
    assert one.excluded_until == eight.excluded_until
    assert one.refusals_in_row == eight.refusals_in_row == 1


def test_a_success_ends_the_cool_down_and_the_row_unless_it_refuses_again_soon() -> None:
    known = after((0, CallOutcome.STOCK_OUT), (60, CallOutcome.STOCK_OUT), (61, CallOutcome.GRANTED))
    assert not is_excluded(known, seconds(61))
    assert known.excluded_until is None
    # Two are left where three are wanted: the third is refused again and again.
    assert learn(known, CallOutcome.STOCK_OUT, "", seconds(62)).cool_down_s == 240
    assert learn(known, CallOutcome.STOCK_OUT, "", seconds(60 + 600)).cool_down_s == 240
    assert learn(known, CallOutcome.STOCK_OUT, "", seconds(60 + 601)).cool_down_s == 60


def test_after_the_cool_down_one_node_is_tried_and_twice_as_many_as_it_gave_then() -> None:
    known = after((0, CallOutcome.STOCK_OUT), (60, CallOutcome.STOCK_OUT), (180, CallOutcome.STOCK_OUT))
    assert nodes_to_count_on(known, seconds(200), 4) == 0
    counts = [nodes_to_count_on(known, seconds(500), 4)]
    for n in range(12):
        known = learn(known, CallOutcome.GRANTED, "", seconds(500 + n))
        counts.append(nodes_to_count_on(known, seconds(500 + n), 4))
    assert counts == [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]


def test_of_what_always_gave_more_is_counted_on_until_it_refuses_or_long_gave_nothing() -> None:
    known = after(*((n, CallOutcome.GRANTED) for n in range(8)))
    assert nodes_to_count_on(known, seconds(8), 4) == 16
    assert nodes_to_count_on(known, seconds(HALF_LIFE_S), 4) == 8
    assert nodes_to_count_on(known, seconds(2 * HALF_LIFE_S), 4) is None
    refused = learn(known, CallOutcome.STOCK_OUT, "", seconds(9))
    assert nodes_to_count_on(refused, seconds(100), 4) == 3


def test_what_was_learned_is_forgotten() -> None:
    known = after((0, CallOutcome.STOCK_OUT), (60, CallOutcome.STOCK_OUT))
    later = seconds(6 * HALF_LIFE_S)
    assert nodes_to_count_on(known, later, 4) is None
    assert success_estimate(known, later) > 0.95
    assert learn(known, CallOutcome.STOCK_OUT, "", later).cool_down_s == 60


def test_nothing_is_excluded_by_success_alone() -> None:
    assert nodes_to_count_on(after((0, CallOutcome.GRANTED)), NOON, 4) is None


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.sampled_from((*REFUSALS, CallOutcome.GRANTED))), min_size=1, max_size=30),
    st.floats(0, 1e5),
)
def test_estimate_and_bound_are_what_they_say(history: list[tuple[float, CallOutcome]], at_s: float) -> None:
    known = after(*history)
    now = seconds(at_s)
    assert 0 < success_estimate(known, now) <= 1
    nodes, given = nodes_to_count_on(known, now, 4), sum(outcome is CallOutcome.GRANTED for _, outcome in history)
    assert nodes is None or 0 <= nodes <= max(4, 2 * given)
    assert (nodes == 0) == is_excluded(known, now)


@given(st.sampled_from(REFUSALS), st.floats(0.01, 30), st.integers(1, 300))
def test_whoever_heeds_it_asks_what_always_refuses_at_most_once_in_the_least_cool_down(
    outcome: CallOutcome, tick_s: float, ticks: int
) -> None:
    known: Learned | None = None
    asked: list[datetime] = []
    for tick in range(ticks):
        now = seconds(tick * tick_s)
        if known is None or not is_excluded(known, now):
            asked.append(now)
            known = learn(known, outcome, "", now)
    assert all(later - earlier >= timedelta(seconds=LEAST_COOL_DOWN_S) for earlier, later in pairwise(asked))


def test_a_clock_that_is_set_back_and_forth_breaks_nothing() -> None:
    known = after(
        (0, CallOutcome.STOCK_OUT),
        (-3600, CallOutcome.STOCK_OUT),
        (3600, CallOutcome.STOCK_OUT),
        (0, CallOutcome.GRANTED),
    )
    assert not is_excluded(known, NOON)
    assert 0 < success_estimate(known, seconds(-7200)) <= 1
