"""Dispatch by slack: the order of the queue, and who gets what."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import slack
from policies.rows import Rows, rows_of

TIMES = st.floats(0.0, 10.0, allow_nan=False)


@dataclass
class Pool:
    """Members that take `per_token_s` seconds a token, with a queue before them."""

    per_token_s: list[float]
    usd_per_s: list[float]
    parts: int = 1
    """Parts that each member is cut into: so many prompts are under way at once."""

    def __post_init__(self) -> None:
        count = len(self.per_token_s)
        self.members: Rows[slack.Member] = rows_of(
            slack.Member,
            count,
            is_open=True,
            has_place=True,
            tokens_free=np.inf,
            usd_per_s=self.usd_per_s,
            times=np.arange(count),
            step_s=-np.inf,
            pace=1.0,
        )
        self.latency_s = np.outer(self.per_token_s, slack.PROMPT_POINTS)
        self.busy_s = self.latency_s / self.parts
        self.waiting: Rows[slack.Waiting] = rows_of(slack.Waiting, 64, previous=-1, next=-1)
        (self.queue,) = rows_of(slack.Queue, 1, head=-1, tail=-1, late_head=-1, late_tail=-1)

    def add(self, row: int, tokens: float, deadline_s: float, behind_s: float = 0.0, asked_s: float = 0.0) -> None:
        own = self.waiting[row]
        own.tokens, own.deadline_s = tokens, deadline_s
        own.latest_s = deadline_s - slack.fastest_s(self.members, 0, len(self.members), self.latency_s, tokens)
        own.aside_s = slack.aside_s(asked_s, own.latest_s)
        own.order_s = own.latest_s + behind_s
        slack.insert(self.waiting, self.queue, row)

    def bind(self, now_s: float) -> tuple[int, int]:
        """The next binding, which is carried out."""
        row, member = slack.next_binding(
            self.members, 0, len(self.members), self.latency_s, self.busy_s, self.waiting, self.queue, now_s, 0.0
        )
        if row >= 0:
            slack.remove(self.waiting, self.queue, row)
            own = self.waiting[row]
            slack.take(self.members[member], self.latency_s, self.busy_s, own.tokens, own.deadline_s, now_s)
        return row, member

    def order(self) -> list[int]:
        found, row = [], self.queue.head
        while row >= 0:
            found.append(int(row))
            row = self.waiting[row].next
        return found


@given(st.lists(TIMES, min_size=1, max_size=20), st.data())
def test_the_queue_is_in_the_order_of_slack_whoever_leaves_it(deadlines: list[float], data: st.DataObject) -> None:
    pool = Pool([0.001], [1.0])
    for row, deadline_s in enumerate(deadlines):
        pool.add(row, 10.0, deadline_s)
    gone = data.draw(st.sets(st.integers(0, len(deadlines) - 1)))
    for row in gone:
        slack.remove(pool.waiting, pool.queue, row)
    left = [row for row in range(len(deadlines)) if row not in gone]
    assert pool.order() == sorted(left, key=lambda row: pool.waiting[row].latest_s)  # of equals, who came first


@given(
    st.lists(st.tuples(st.floats(1, 4000), TIMES), min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(1e-4, 1e-2), st.floats(0, 5)), min_size=1, max_size=5),
    TIMES,
)
def test_all_that_is_bound_in_time_is_predicted_to_be_in_time(
    asked: list[tuple[float, float]], members: list[tuple[float, float]], now_s: float
) -> None:
    pool = Pool([per for per, _ in members], [usd for _, usd in members])
    for row, (tokens, deadline_s) in enumerate(asked):
        pool.add(row, tokens, deadline_s)
    seen, used = set(), set()
    while (bound := pool.bind(now_s))[0] >= 0:
        row, member = bound
        assert row not in seen
        assert member not in used
        seen.add(row)
        used.add(member)
        tokens, deadline_s = asked[row]
        own_s = tokens * members[member][0]
        fastest_s = tokens * min(per for per, _ in members)
        was_late = now_s + fastest_s > deadline_s + 1e-9
        assert was_late or now_s + own_s <= deadline_s + 1e-6
    # A member is left idle only by requests that it could not keep, and that a busy one still can.
    idle = set(range(len(members))) - used
    for row in pool.order():
        assert all(now_s + asked[row][0] * members[each][0] > asked[row][1] - 1e-6 for each in idle)
    if idle and (late := pool.queue.late_head) >= 0:
        assert pool.waiting[late].latest_s >= now_s
        assert all(now_s + asked[late][0] * members[each][0] > asked[late][1] - 1e-6 for each in idle)


def test_the_cheapest_that_keeps_the_objective_takes_it_and_long_prompts_get_the_fast_ones() -> None:
    pool = Pool([0.001, 0.01], [1.0, 0.01])
    pool.add(0, 50.0, 1.0)
    pool.add(1, 500.0, 1.0)
    assert dict(pool.bind(0.0) for _ in range(2)) == {0: 1, 1: 0}


def test_what_nobody_can_keep_goes_behind_what_can_be_kept() -> None:
    pool = Pool([0.001], [1.0])
    pool.add(0, 500.0, 0.1)
    pool.add(1, 500.0, 9.0)
    assert pool.bind(0.0) == (1, 0)
    assert pool.bind(0.0) == (-1, -1)
    assert pool.bind(0.5) == (0, 0)


def test_who_has_waited_for_most_of_its_slack_goes_behind_who_has_not_and_is_still_kept_where_a_place_is_left() -> None:
    pool = Pool([0.001, 0.001], [1.0, 1.0])
    pool.add(0, 100.0, 1.1)
    pool.add(1, 100.0, 1.2, asked_s=0.7)
    assert [pool.bind(0.8)[0] for _ in range(2)] == [1, 0]


def test_who_has_waited_for_most_of_its_slack_is_not_given_away_to_who_cannot_keep_it() -> None:
    pool = Pool([0.001, 0.01], [1.0, 0.01])
    pool.add(0, 100.0, 1.1)
    pool.members[0].has_place = False
    assert pool.bind(0.8) == (-1, -1)
    assert pool.bind(1.05) == (0, 1)


def test_short_prompts_go_in_one_step_as_long_as_all_in_it_are_in_time() -> None:
    pool = Pool([0.001], [1.0])
    pool.members[0].chunk = 100.0
    pool.add(0, 40.0, 0.09)
    pool.add(1, 40.0, 1.0)
    pool.add(2, 15.0, 1.1)  # would have the first one late
    assert [pool.bind(0.0) for _ in range(3)] == [(0, 0), (1, 0), (-1, -1)]
    assert slack.next_look_s(pool.members, 0, 1, 0.0, 0.0) == pytest.approx(0.08)


def test_times_are_on_lines_between_points_and_beyond() -> None:
    for tokens in (0.0, 1.0, 16.0, 17.0, 1024.0, 1_000.5, 5e5):
        assert slack.seconds(2 * slack.PROMPT_POINTS + 1, tokens) == pytest.approx(2 * tokens + 1)


def test_a_short_prompt_does_not_overtake_a_long_one_that_is_in_another_part_of_its_member() -> None:
    pool = Pool([0.001, 0.004], [1.0, 5.0], parts=4)
    pool.add(0, 1000.0, 2.0)
    assert pool.bind(0.0) == (0, 0)  # in the other parts until 1.0
    pool.members[1].has_place = False
    pool.add(1, 100.0, 0.9)
    assert pool.bind(0.3) == (-1, -1)
    pool.members[1].has_place = True
    assert pool.bind(0.3) == (1, 1)


def test_prompts_that_share_a_step_attend_to_their_own_tokens_alone() -> None:
    pool = Pool([0.001], [1.0])
    pool.members[0].chunk = 200.0
    pool.members[0].latency_square_s = pool.members[0].busy_square_s = 1e-6
    for row in range(2):
        pool.add(row, 100.0, 0.19)  # one prompt of 200 tokens would take 0.2
    assert [pool.bind(0.0) for _ in range(2)] == [(0, 0), (1, 0)]
    assert pool.members[0].free_s == pytest.approx(0.2 - 1e-6 * (200**2 - 2 * 100**2))
