"""Whose answer takes the next step, against a plain account of what was asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.executor.queue import Refusal
from agents.executor.turns import TurnLimits, Turns

ACTIONS = st.sampled_from(["add", "step", "done", "cancel", "late"])


@given(st.lists(st.tuples(ACTIONS, st.integers(0, 7)), max_size=60), st.integers(1, 3), st.booleans())
def test_each_answer_takes_its_steps_in_the_order_of_the_line(
    actions: list[tuple[str, int]], together: int, takes_turns: bool
) -> None:
    turns = Turns[int](TurnLimits(together, 4, takes_turns))
    line, stepping, left, due, now_s = list[int](), list[int](), dict[int, int](), dict[int, float](), 0.0
    is_busy = False
    for number, (action, pick) in enumerate(actions):
        now_s += 1.0
        there = [*line, *stepping]
        if action == "add":
            is_full = len(there) >= 4
            assert turns.add(number, now_s + 3 * pick) is (Refusal.FULL if is_full else None)
            if not is_full:
                line.append(number)
                left[number], due[number] = 1 + pick % 3, now_s + 3 * pick
        elif action == "step":
            expected = [] if is_busy else line[:together]
            assert list(turns.step()) == expected
            if expected:
                line, stepping, is_busy = line[together:], expected, True
        elif action == "done" and is_busy:
            for key in stepping:
                left[key] -= 1
            again = [key for key in stepping if left[key]]
            turns.stepped(lambda key: not left[key])
            line, stepping, is_busy = ([*line, *again] if takes_turns else [*again, *line]), [], False
        elif action == "cancel" and there:
            gone = there[pick % len(there)]
            assert turns.cancel(gone)
            assert not turns.cancel(gone)
            line, stepping = [k for k in line if k != gone], [k for k in stepping if k != gone]
        elif action == "late":
            late = [key for key in line if due[key] <= now_s]
            assert list(turns.late(now_s)) == late
            line = [key for key in line if key not in late]
        assert (turns.waiting, turns.stepping, turns.room) == (len(line), len(stepping), 4 - len(line) - len(stepping))


def test_an_answer_is_added_once() -> None:
    turns = Turns[str](TurnLimits(1, 4, True))
    turns.add("a", 1.0)
    turns.step()
    with pytest.raises(ValueError, match="a"):
        turns.add("a", 1.0)
