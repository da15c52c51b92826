"""No block of a pool has two owners, and none is lost, whoever takes, gives back and dies."""

import numpy as np
import pytest

from agents.kv_pool.block_ledger import BlockLedger
from agents.unit.grants import Grants

POOL, QUOTAS = 97, (40, 50, 60)


@pytest.mark.parametrize("seed", range(3))
def test_random_takes_gives_and_deaths_keep_one_owner_a_block(seed: int) -> None:
    draw = np.random.default_rng(seed)
    grants = Grants(POOL, QUOTAS)
    ledger = BlockLedger(grants)
    for _ in range(10_000):
        member, move = int(draw.integers(3)), draw.random()
        if move < 0.5:
            count, left = int(draw.integers(0, 12)), ledger.left(member)
            if count > left:
                before = ledger.free
                with pytest.raises(ValueError, match="left"):
                    ledger.take(member, count)
                assert ledger.free == before
            else:
                assert len(ledger.take(member, count)) == count
        elif move < 0.95:
            held = sorted(ledger.held(member))
            some = draw.permutation(held)[: int(draw.integers(0, len(held) + 1))].tolist()
            ledger.give_back(member, [int(block) for block in some])
        else:
            assert ledger.reclaim([member]) >= 0
            assert not ledger.held(member)
        owned = [block for each in range(3) for block in ledger.held(each)]
        assert len(owned) == len(set(owned)) == POOL - ledger.free
        assert grants.held == tuple(len(ledger.held(each)) for each in range(3))
        assert all(len(ledger.held(each)) <= quota for each, quota in enumerate(QUOTAS))
    ledger.reclaim(range(3))
    assert sorted(ledger.take(0, 40) + ledger.take(1, 50) + ledger.take(2, 7)) == list(range(POOL))


def test_blocks_of_another_or_given_twice_are_refused() -> None:
    ledger = BlockLedger(Grants(10, (5, 5)))
    mine = ledger.take(0, 2)
    for member, blocks in ((1, mine), (0, [mine[0], mine[0]]), (0, [99])):
        with pytest.raises(ValueError, match="does not hold"):
            ledger.give_back(member, blocks)
    ledger.give_back(0, mine)
    with pytest.raises(ValueError, match="does not hold"):
        ledger.give_back(0, mine)
