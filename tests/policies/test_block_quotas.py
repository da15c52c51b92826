"""Quotas of blocks in a shared unit: where they begin, and how they move."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.shared_units.block_quotas import BlockDemand, BlockUse, adapted_quotas, initial_quotas, split

demands = st.lists(
    st.builds(BlockDemand, st.just(0.0) | st.floats(0.01, 100), st.floats(1, 1e4), st.integers(1, 5000)),
    min_size=1,
    max_size=5,
)


@st.composite
def uses(draw: st.DrawFn) -> list[BlockUse]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        least = draw(st.integers(1, 100))
        quota = least + draw(st.integers(0, 2000))
        used = draw(st.integers(0, quota))
        found.append(BlockUse(quota, used, draw(st.sampled_from([0, 0, 1, 50, 5000])), least))
    return found


@given(demands, st.integers(0, 10**6))
def test_quotas_begin_as_the_whole_pool_and_nobody_below_one_longest_request(
    wanted: list[BlockDemand], more: int
) -> None:
    pool = sum(each.least for each in wanted) + more
    quotas = initial_quotas(pool, wanted)
    assert sum(quotas) == pool
    assert all(quota >= each.least for quota, each in zip(quotas, wanted, strict=True))
    free = [i for i, each in enumerate(wanted) if quotas[i] > each.least + 1]
    weights = {i: wanted[i].requests_per_s * wanted[i].blocks_per_request for i in free}
    for i in free:  # use of blocks over rate times blocks of a request is equal where no least holds
        for k in free:
            assert quotas[i] * weights[k] == pytest.approx(quotas[k] * weights[i], abs=weights[i] + weights[k])


def test_a_pool_without_one_longest_request_of_each_is_refused() -> None:
    with pytest.raises(ValueError, match="2 short"):
        initial_quotas(8, [BlockDemand(1, 1, 4), BlockDemand(1, 1, 6)])


@given(uses())
def test_moved_quotas_add_up_and_take_from_nobody_what_it_used(before: list[BlockUse]) -> None:
    after = adapted_quotas(before)
    assert sum(after) == sum(each.quota for each in before)
    for quota, each in zip(after, before, strict=True):
        assert quota >= each.least
        if quota < each.quota:
            assert each.used < 0.9 * each.quota
            assert not each.short_of
            assert quota >= each.used
        if quota > each.quota:
            assert each.used >= 0.9 * each.quota
            assert quota - each.quota <= each.short_of


def test_blocks_go_from_who_leaves_them_to_who_waits_for_them() -> None:
    idle, busy, waits = BlockUse(1000, 100, 0, 50), BlockUse(1000, 950, 0, 50), BlockUse(1000, 990, 400, 50)
    assert adapted_quotas([idle, busy, waits]) == (700, 1000, 1300)  # a tenth of the pool
    assert adapted_quotas([idle, busy, replace(waits, short_of=40)]) == (960, 1000, 1040)
    assert adapted_quotas([replace(idle, used=900, quota=1100), busy, waits]) == (948, 1000, 1152)
    assert adapted_quotas([idle, busy, busy]) == (1000, 1000, 1000)
    assert adapted_quotas([waits, waits]) == (1000, 1000)


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6), min_size=1, max_size=6))
def test_a_split_of_whole_amounts_has_no_rest(amount: int, weights: list[int]) -> None:
    found = split(min(amount, sum(weights)), weights)
    assert sum(found) == min(amount, sum(weights))
    assert all(0 <= each <= weight for each, weight in zip(found, weights, strict=True))
