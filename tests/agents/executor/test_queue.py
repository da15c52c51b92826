"""The queue of an executor against a plain account of what was asked of it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.executor.queue import BatchLimits, Refusal, UnitQueue

LIMITS = {"vision": BatchLimits(3, 100), "hearing": BatchLimits(2, 60)}
ACTIONS = st.sampled_from(["add", "fetch", "batch", "done", "cancel", "late"])


@given(
    st.lists(st.tuples(ACTIONS, st.integers(0, 7), st.sampled_from(sorted(LIMITS)), st.integers(1, 120)), max_size=80)
)
def test_each_unit_is_answered_once_in_batches_that_the_engine_takes(
    steps: list[tuple[str, int, str, int]],
) -> None:
    queue = UnitQueue[tuple[int, int]](LIMITS, 5)
    ends, rows_of, component_of = Counter[tuple[int, int]](), dict[tuple[int, int], int](), dict[tuple[int, int], str]()
    ready, now_s, is_busy = list[tuple[int, int]](), 0.0, False
    for number, (action, pick, component, size) in enumerate(steps):
        now_s += 1.0
        there = [key for key in component_of if not ends[key]]
        chosen = there[pick % len(there)] if there else None
        if action == "add":
            key, before = (number, pick), queue.waiting
            refused = queue.add(key, component, now_s + size)
            assert (refused is Refusal.FULL) is (before >= 5)
            component_of[key] = component
            ends[key] += refused is not None
        elif action == "fetch" and chosen is not None and chosen not in rows_of:
            rows_of[chosen] = size
            if queue.fetched(chosen, size, now_s) is Refusal.TOO_LARGE:
                assert size > LIMITS[component_of[chosen]].most_rows
                ends[chosen] += 1
            else:
                ready.append(chosen)
        elif action == "batch":
            batch = queue.batch()
            assert (batch is None) is (is_busy or not ready)
            if batch is not None:
                is_busy, (name, keys) = True, batch
                assert keys[0] == ready[0]
                assert {component_of[key] for key in keys} == {name}
                assert list(keys) == [key for key in ready if component_of[key] == name][: len(keys)]
                assert len(keys) <= LIMITS[name].most_units
                assert sum(rows_of[key] for key in keys) <= LIMITS[name].most_rows
                ready = [key for key in ready if key not in keys]
        elif action == "done":
            ends.update(queue.computed())
            is_busy = False
        elif action == "cancel" and chosen is not None:
            assert queue.cancel(chosen)
            assert not queue.cancel(chosen)
            ends[chosen] += 1
            ready = [key for key in ready if key != chosen]
        elif action == "late":
            late = queue.late(now_s)
            ends.update(late)
            ready = [key for key in ready if key not in late]
        assert max(ends.values(), default=0) <= 1
        assert queue.waiting + queue.computing == sum(not ends[key] for key in component_of)


def test_what_is_fetched_late_holds_nobody_up_and_what_is_gone_is_not_computed() -> None:
    queue = UnitQueue[str](LIMITS, 10)
    for name in "abc":
        assert queue.add(name, "vision", 100.0) is None
    assert queue.batch() is None
    queue.fetched("c", 10, 1.0)
    queue.fetched("b", 10, 2.0)
    queue.cancel_where("b".__eq__)
    assert queue.fetched("b", 10, 3.0) is None
    assert queue.batch() == ("vision", ("c",))
    assert queue.batch() is None, "one batch at a time"
    queue.fetched("a", 10, 4.0)
    assert queue.computed() == ("c",)
    assert queue.batch() == ("vision", ("a",))


def test_later_units_of_a_large_request_let_those_of_others_pass_and_nobody_starves() -> None:
    queue = UnitQueue[str]({"vision": BatchLimits(1, 100)}, 100)
    for number in range(3):
        queue.add(f"large-{number}", "vision", 100.0, behind_s=2.0 * number)
        queue.fetched(f"large-{number}", 10, 0.0)
    for number in range(6):
        queue.add(f"small-{number}", "vision", 100.0)
        queue.fetched(f"small-{number}", 10, 1.0 + number)
    order = []
    while (batch := queue.batch()) is not None:
        order += batch[1]
        queue.computed()
    assert order == [
        "large-0", "small-0", "large-1", "small-1", "small-2", "large-2", "small-3", "small-4", "small-5",
    ]  # fmt: skip


def test_units_of_a_component_that_is_not_there_and_units_that_are_there_are_refused() -> None:
    queue = UnitQueue[str](LIMITS, 10)
    with pytest.raises(KeyError):
        queue.add("a", "speech", 1.0)
    queue.add("a", "vision", 1.0)
    with pytest.raises(ValueError, match="there already"):
        queue.add("a", "hearing", 1.0)
