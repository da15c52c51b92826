"""Priorities: a flood of low ones makes no high one late, low ones do not starve, and within one all is as without."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admission import Admission, Charge
from policies.priority import Priority
from policies.slack import MOST_PASSED
from tests.policies.test_fair_order import OBJECTIVE_S, PROMPT_S, Asked, Queue

RATE = 1 / PROMPT_S
"""Requests per second that one member can do."""
INTERACTIVE, STANDARD, BATCH = Priority


def asked(rate: float, seconds: float, priority: Priority, key: str = "k", begin_s: float = 0.0) -> list[Asked]:
    """Requests that come evenly, `rate` a second."""
    return [Asked(begin_s + at_s, ("p", key), priority) for at_s in np.arange(0.0, seconds, 1 / rate).tolist()]


def test_an_overload_of_batch_requests_makes_no_interactive_one_late_that_it_would_without_priorities() -> None:
    late = {}
    for priority in (INTERACTIVE, BATCH):
        urgent = asked(0.5 * RATE, 10.0, priority, "people", begin_s=0.03)
        flood = asked(2 * RATE, 10.0, BATCH, "job")
        found = Queue(1, fair=False).run([*urgent, *flood])
        late[priority] = sum(s > OBJECTIVE_S for s in found[: len(urgent)])
    assert late[INTERACTIVE] == 0
    assert late[BATCH] > len(urgent) / 4


def test_a_low_priority_is_served_though_higher_ones_never_end() -> None:
    batch = asked(0.5, 2.0, BATCH)
    queue = Queue(1)
    queue.run([*asked(2 * RATE, 20.0, INTERACTIVE), *batch])
    begun = list(queue.begun_s)
    rows = range(2 * int(RATE * 20), 2 * int(RATE * 20) + len(batch))
    # One after another, each behind as many of the others as may pass it.
    assert max(begun.index(row) for row in rows) <= (len(batch) + 1) * (MOST_PASSED + 1) + RATE * 2


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 4), st.sampled_from(Priority), st.integers(0, 2)), min_size=1, max_size=80),
    st.integers(1, 2),
)
def test_a_higher_priority_is_begun_first_but_for_one_that_was_passed_often(
    drawn: list[tuple[float, Priority, int]], members: int
) -> None:
    requests = [Asked(at_s, ("p", str(key)), priority) for at_s, priority, key in drawn]
    queue = Queue(members)
    queue.run(requests)
    begun = [(begun_s, requests[row]) for row, begun_s in queue.begun_s.items()]
    passed = dict.fromkeys(Priority, 0)
    for number, (begun_s, own) in enumerate(begun):
        still = [other for _, other in begun[number + 1 :] if other.arrival_s <= begun_s]
        if any(other.priority.rank < own.priority.rank for other in still):
            assert passed[own.priority] >= MOST_PASSED
        for priority in Priority:
            waits = any(other.priority is priority for other in still)
            passed[priority] = passed[priority] + 1 if waits and priority.rank > own.priority.rank else 0
            assert passed[priority] <= 2 * MOST_PASSED  # two may be overdue at once


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 4), st.integers(0, 2)), min_size=1, max_size=60), st.sampled_from(Priority))
def test_requests_of_one_priority_are_served_as_without_any(drawn: list[tuple[float, int]], priority: Priority) -> None:
    requests = [Asked(at_s, ("p", str(key)), priority) for at_s, key in drawn]
    plain = [Asked(at_s, ("p", str(key))) for at_s, key in drawn]
    assert Queue(2).run(requests) == Queue(2).run(plain)


def test_a_light_key_is_not_held_up_by_a_heavy_one_of_its_priority_while_lower_ones_flood() -> None:
    flood = [*asked(2 * RATE, 8.0, INTERACTIVE, "heavy"), *asked(2 * RATE, 8.0, BATCH, "job")]
    lights = asked(0.1 * RATE, 8.0, INTERACTIVE, "light", begin_s=0.5)
    assert max(Queue(1).run([*lights, *flood])[: len(lights)]) <= OBJECTIVE_S


def test_a_priority_is_lowered_to_its_ceiling_and_never_raised() -> None:
    for own in Priority:
        for ceiling in Priority:
            assert own.at_most(ceiling).rank == max(own.rank, ceiling.rank)


@pytest.mark.parametrize("flooding", [STANDARD, BATCH])
def test_a_flood_of_a_lower_priority_leaves_higher_ones_room_to_be_admitted(flooding: Priority) -> None:
    admission, charge = Admission(10.0), Charge("m/prefill", 100.0, 100.0)
    for _ in range(100):
        admission.admit((charge,), 0.0, flooding)
    assert admission.admit((charge,), 0.0, flooding) is not None
    assert admission.admit((charge,), 0.0, INTERACTIVE) is None
    assert (admission.admit((charge,), 0.0, STANDARD) is None) == (flooding is BATCH)
