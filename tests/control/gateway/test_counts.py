"""Bounds of a gateway that several processes count together."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.api_error import ApiError
from control.gateway.body_budget import BodyBudget
from control.gateway.counts import Counted, Counts, shared_bytes
from control.gateway.making.coming_pieces import PieceBudget
from control.gateway.settings import GatewaySettings
from policies.fair_order import Account

FLOOD: Account = ("p", "flood")


def three() -> list[Counts]:
    cells = memoryview(bytearray(shared_bytes(3)))
    return [Counts(cells, own) for own in range(3)]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 40), st.booleans()), max_size=60))
def test_bodies_of_all_processes_fit_in_one_memory_and_one_account_never_has_more_than_half(steps):
    budgets, holds = [BodyBudget(100, each) for each in three()], []
    for process, account, count, releases in steps:
        hold = budgets[process].hold(("", account))
        try:
            hold.add(count)
        except ApiError:
            continue
        holds.append((hold, account, count))
        if releases:
            holds.pop(0)[0].release()
        assert sum(count for _, _, count in holds) <= 100
        assert all(sum(count for _, whose, count in holds if whose == each) <= 50 for each in "ab")
    for hold, _, _ in holds:
        hold.release()
    budgets[0].hold(("", "c")).add(50)


def test_what_an_account_holds_at_one_process_counts_at_the_others():
    one, other, _ = (BodyBudget(100, each) for each in three())
    one.hold(FLOOD).add(50)
    with pytest.raises(ApiError) as refused:
        other.hold(FLOOD).add(1)
    assert refused.value.status == 503
    other.hold(("q", "other")).add(25)


def test_what_a_process_held_that_has_ended_is_free_for_the_others():
    counts = three()
    ended, other, third = counts
    BodyBudget(100, ended).hold(FLOOD).add(50)
    ended.add(Counted.OPEN_CALLS, 7)
    other.add(Counted.OPEN_CALLS, 2)
    PieceBudget(100, ended).take(60)
    pieces = PieceBudget(100, third)
    assert not pieces.has_room(0, 25)
    other.clear(0)
    assert [each.total(Counted.OPEN_CALLS) for each in counts] == [2, 2, 2]
    assert pieces.has_room(0, 50)
    BodyBudget(100, third).hold(FLOOD).add(50)


def test_processes_that_have_a_file_in_common_count_in_it():
    file = os.memfd_create("counts")
    try:
        os.ftruncate(file, shared_bytes(2))
        one, other = (Counts.shared(file, own) for own in range(2))
    finally:
        os.close(file)
    assert one.processes == 2
    one.add(Counted.OPEN_RUNS, 3)
    other.add(Counted.OPEN_RUNS, 1)
    one.add(Counted.OPEN_RUNS, -1)
    assert (one.total(Counted.OPEN_RUNS), other.total(Counted.OPEN_RUNS)) == (3, 3)


@pytest.mark.parametrize("processes", [1, 3, 64])
def test_the_parts_of_what_is_divided_are_no_more_than_the_whole_but_for_rounding(processes: int):
    whole = GatewaySettings(preprocessor_slab_mib=1000)
    part = whole.of_each(processes)
    assert whole.max_connections <= part.max_connections * processes < whole.max_connections + processes
    assert 1000 <= part.preprocessor_slab_mib * processes < 1000 + processes
    assert part.max_open_calls == whole.max_open_calls
    assert GatewaySettings().of_each(processes).preprocessor_slab_mib == 0
