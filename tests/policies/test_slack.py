"""Dispatch by slack: the order of the queue, and who gets what."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import late_refusal, queue_parts, slack
from policies.priority import Priority
from policies.rows import Rows, column, rows_of

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
        self.waiting: Rows[queue_parts.Waiting] = rows_of(queue_parts.Waiting, 64, previous=-1, next=-1)
        self.queues: Rows[queue_parts.Queue] = rows_of(queue_parts.Queue, queue_parts.PARTS, **queue_parts.EMPTY)
        self.queue = self.queues[Priority.STANDARD.rank]

    def add(
        self,
        row: int,
        tokens: float,
        deadline_s: float,
        behind_s: float = 0.0,
        asked_s: float = 0.0,
        is_excused: bool = False,
        priority: Priority = Priority.STANDARD,
    ) -> None:
        own = self.waiting[row]
        own.part = priority.rank
        own.tokens, own.deadline_s = tokens, deadline_s
        queue, members = (self.waiting, self.queues), (self.members, 0, len(self.members))
        slack.join(*members, self.latency_s, *queue, row, asked_s, behind_s, is_excused)

    def bind(self, now_s: float) -> tuple[int, int]:
        """The next binding, which is carried out."""
        times, queue = (self.latency_s, self.busy_s), (self.waiting, self.queues, 0)
        row, member = slack.next_binding(self.members, 0, len(self.members), *times, *queue, now_s, 0.0)
        if row >= 0:
            queue_parts.remove(self.waiting, self.queues, row)
            own = self.waiting[row]
            slack.take(self.members[member], self.latency_s, self.busy_s, own.tokens, own.deadline_s, now_s)
        return row, member

    def refuse(self, now_s: float) -> list[int]:
        """Those that are refused now, who leave the queue."""
        found = []
        while True:
            queue = self.waiting, self.queues, 0
            row = late_refusal.next_missed(self.members, 0, len(self.members), self.latency_s, *queue, now_s)
            if row < 0:
                return found
            queue_parts.remove(self.waiting, self.queues, row)
            found.append(int(row))

    def order(self) -> list[int]:
        found, row = [], self.queue.head
        while row >= 0:
            found.append(int(row))
            row = self.waiting[row].next
        return found


@given(st.lists(TIMES, min_size=1, max_size=20), st.data())
def test_the_queue_is_in_the_order_of_deadlines_whoever_leaves_it(deadlines: list[float], data: st.DataObject) -> None:
    pool = Pool([0.001], [1.0])
    for row, deadline_s in enumerate(deadlines):
        pool.add(row, 10.0, deadline_s)
    gone = data.draw(st.sets(st.integers(0, len(deadlines) - 1)))
    for row in gone:
        queue_parts.remove(pool.waiting, pool.queues, row)
    left = [row for row in range(len(deadlines)) if row not in gone]
    assert pool.order() == sorted(left, key=lambda row: deadlines[row])  # of equals, who came first


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


@given(
    st.lists(st.tuples(st.floats(1, 4000), TIMES, st.floats(0, 5), st.booleans()), min_size=1, max_size=20),
    st.lists(st.tuples(st.floats(1e-4, 1e-2), st.booleans()), min_size=1, max_size=5),
    st.lists(TIMES, min_size=1, max_size=4),
    st.booleans(),
)
def test_what_no_open_member_can_begin_in_time_is_refused_and_nothing_else(
    asked: list[tuple[float, float, float, bool]],
    members: list[tuple[float, bool]],
    looks_s: list[float],
    refuses_late: bool,
) -> None:
    pool = Pool([per for per, _ in members], [1.0] * len(members))
    column(pool.queues, "refuses_late")[:] = refuses_late
    for row, (tokens, deadline_s, behind_s, is_excused) in enumerate(asked):
        pool.add(row, tokens, deadline_s, behind_s, is_excused=is_excused)
    for member, (_, is_open) in zip(pool.members, members, strict=True):  # some of those reckoned with are gone since
        member.is_open = is_open
    fastest_s = min((per for per, is_open in members if is_open), default=np.inf)
    left = {row for row, (_, _, _, is_excused) in enumerate(asked) if not is_excused}
    for now_s in sorted(looks_s):
        slack.next_binding(  # which sorts some into the list of those that are late
            pool.members, 0, len(members), pool.latency_s, pool.latency_s, pool.waiting, pool.queues, 0, now_s, 0.0
        )
        refused = set(pool.refuse(now_s))
        assert refused <= left
        left -= refused
        if not refuses_late or fastest_s == np.inf:
            assert not refused
            continue
        for row in refused:
            assert now_s + fastest_s * asked[row][0] > asked[row][1] - 1e-9
        for row in left:  # by whoever was fastest when it came, at the latest
            late_by_s = now_s + min(per for per, _ in members) * asked[row][0] - asked[row][1]
            assert late_by_s <= 1e-9 or now_s + fastest_s * asked[row][0] <= asked[row][1] + 1e-9


def test_the_next_refusal_comes_at_the_last_moment_of_a_request_and_none_while_a_faster_member_can_keep_it() -> None:
    pool = Pool([0.01, 0.001], [1.0, 1.0])
    column(pool.queues, "refuses_late")[:] = True
    pool.members[1].is_open = False
    pool.add(0, 100.0, 2.0, behind_s=5.0)  # has to begin by 1.0
    pool.add(1, 100.0, 3.0)
    assert pool.refuse(1.0) == []
    assert late_refusal.next_missed_s(pool.queues, 0) == pytest.approx(1.0)
    pool.members[1].is_open = True
    assert pool.refuse(1.5) == []
    assert late_refusal.next_missed_s(pool.queues, 0) == pytest.approx(1.9)
    pool.members[1].is_open = False
    assert pool.refuse(late_refusal.next_missed_s(pool.queues, 0)) == [0]
    assert pool.order() == [1]


def test_who_waits_while_no_member_is_open_is_served_however_late() -> None:
    pool = Pool([0.001], [1.0])
    column(pool.queues, "refuses_late")[:] = True
    pool.add(0, 100.0, 1.1)
    pool.members[0].is_open = False
    assert pool.refuse(5.0) == []
    pool.add(1, 100.0, 6.0)  # comes while none is open
    assert pool.refuse(50.0) == []
    pool.members[0].is_open = True
    pool.add(2, 100.0, 50.05)
    assert pool.refuse(50.0) == [2]
    assert sorted(pool.bind(50.0 + n)[0] for n in range(2)) == [0, 1]
