"""Blocks that members' schedulers count on, who learn of other quotas later than these change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.unit.promised_grants import PromisedGrants
from policies.shared_units.block_quotas import split

MEMBERS, POOL = 3, 60
who = st.integers(0, MEMBERS - 1)
moves = st.one_of(
    st.tuples(st.just("quotas"), st.lists(st.integers(0, 9), min_size=MEMBERS, max_size=MEMBERS), st.just(0)),
    *(st.tuples(st.just(move), who, st.integers(1, 20)) for move in ("order", "finish", "compute", "renew", "die")),
)


@given(st.lists(moves, max_size=80))
def test_who_was_promised_blocks_gets_them_and_nobody_gets_those_of_others(steps: list[tuple]) -> None:
    grants = PromisedGrants(POOL, [20, 20, 20])
    counted, needed = [20] * MEMBERS, [0] * MEMBERS
    """Blocks that each scheduler counts on, and that its requests have of them; its engine follows later."""
    for move, member, blocks in steps:
        if move == "quotas":
            grants.change(split(POOL, member) if sum(member) else [0] * MEMBERS)
        elif move == "order":
            needed[member] = min(counted[member], needed[member] + blocks)
        elif move == "finish":
            needed[member] = max(0, needed[member] - blocks)
        elif move == "die":
            grants.give(member, grants.held[member])
            grants.forget(member)
            needed[member] = counted[member] = 0
        elif move == "renew" and grants.held[member] >= needed[member]:  # its engine has no step under way
            counted[member] = max(grants.renew(member, counted[member], is_short=False), needed[member])
        elif move == "compute":
            more = needed[member] - grants.held[member]
            if more > 0:
                grants.take(member, more)
            else:
                grants.give(member, -more)
        assert sum(grants.held) <= POOL
        assert all(grants.left(i) >= counted[i] - max(needed[i], grants.held[i]) for i in range(MEMBERS))


def test_a_lowered_quota_is_anothers_once_nobody_counts_on_it_or_holds_it() -> None:
    grants = PromisedGrants(10, [8, 2])
    grants.take(0, 6)
    grants.change([3, 7])
    assert grants.renew(1, 2, is_short=True) == 2
    assert grants.renew(0, 8, is_short=False) == 3
    assert grants.renew(1, 2, is_short=True) == 2, "the first still counts on eight"
    assert grants.renew(0, 4, is_short=False) == 3
    assert grants.renew(1, 2, is_short=True) == 4, "its engine still holds six"
    grants.give(0, 3)
    assert grants.renew(0, 3, is_short=False) == 3
    assert grants.renew(1, 4, is_short=True) == 7
    grants.take(1, 7)
    assert grants.left(0) == 0


def test_a_member_whose_requests_wait_has_used_its_quota() -> None:
    grants = PromisedGrants(10, [8, 2])
    grants.take(0, 1)
    grants.renew(0, 8, is_short=True)
    assert grants.most_held() == (8, 0)
    assert grants.most_held() == (1, 0)


def test_promises_above_the_pool_are_refused() -> None:
    with pytest.raises(ValueError, match="pool"):
        PromisedGrants(10, [8, 3])
