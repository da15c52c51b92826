"""Blocks of a unit: who holds how many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.unit.grants import Grants

MEMBERS, POOL = 3, 60
quotas = st.lists(st.integers(0, POOL), min_size=MEMBERS, max_size=MEMBERS)
moves = st.one_of(
    st.tuples(st.just("take"), st.integers(0, MEMBERS - 1), st.integers(0, POOL)),
    st.tuples(st.just("give"), st.integers(0, MEMBERS - 1), st.integers(0, POOL)),
    st.tuples(st.just("change"), quotas, st.none()),
)


@given(quotas, st.lists(moves, max_size=60))
def test_nobody_takes_more_than_its_quota_and_all_no_more_than_the_pool(first: list[int], steps: list[tuple]) -> None:
    grants, held, most = Grants(POOL, first), [0] * MEMBERS, [0] * MEMBERS
    for move, who, blocks in steps:
        if move == "change":
            grants.change(who)
        elif move == "take":
            allowed = held[who] + blocks <= grants.quotas[who] and sum(held) + blocks <= POOL
            if allowed:
                grants.take(who, blocks)
                held[who] += blocks
            elif blocks:
                with pytest.raises(ValueError, match="blocks"):
                    grants.take(who, blocks)
        elif blocks <= held[who]:
            grants.give(who, blocks)
            held[who] -= blocks
        else:
            with pytest.raises(ValueError, match="blocks"):
                grants.give(who, blocks)
        most = [max(a, b) for a, b in zip(most, held, strict=True)]
        assert list(grants.held) == held
        assert sum(held) <= POOL
        assert all(0 <= grants.left(i) <= POOL - sum(held) for i in range(MEMBERS))
    assert list(grants.most_held()) == most
    assert list(grants.most_held()) == held  # since it was asked


def test_a_lowered_quota_takes_nothing_away() -> None:
    grants = Grants(10, [8, 2])
    grants.take(0, 8)
    grants.change([3, 7])
    assert grants.held == (8, 0)
    assert grants.left(0) == 0
    assert grants.left(1) == 2  # no more than the pool has
    grants.give(0, 6)
    assert (grants.left(0), grants.left(1)) == (1, 7)


@pytest.mark.parametrize("wrong", [[11, 0], [-1, 5]])
def test_quotas_outside_of_the_pool_are_refused(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="pool"):
        Grants(10, wrong)
    with pytest.raises(ValueError, match="pool"):
        Grants(10, [5, 5]).change(wrong)
    with pytest.raises(ValueError, match="members"):
        Grants(10, [5, 5]).change([1])
