"""What the market of a snapshot gives: what is held and what can be had beside it, within what offers share."""

import pytest

from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from tests.factories import offer, running, snapshot

KNOWN = offer("a", "c/one", 1.0, 2)
UNKNOWN = offer("b", "c/one", 1.0, None)
GONE = offer("d", "c/one", 1.0)


@pytest.fixture
def market() -> Snapshot:
    """One node of each is held; the pool is for four nodes of `a`, or two of `b`."""
    pool = SupplyPool("vcpus", 4.0, "vCPU", {KNOWN.key: 1.0, UNKNOWN.key: 2.0})
    return snapshot([KNOWN, UNKNOWN], [], {}, pools=[pool], instances=[running("t", [KNOWN, UNKNOWN, GONE])])


def test_an_offer_gives_what_is_held_and_what_it_has_left(market: Snapshot) -> None:
    assert market.gives({KNOWN.key: 3})
    assert not market.gives({KNOWN.key: 4})


def test_an_offer_that_is_not_made_any_more_gives_what_is_held(market: Snapshot) -> None:
    assert market.gives({GONE.key: 1})
    assert not market.gives({GONE.key: 2})


def test_offers_share_a_pool(market: Snapshot) -> None:
    assert market.gives({KNOWN.key: 2, UNKNOWN.key: 1})
    assert not market.gives({KNOWN.key: 3, UNKNOWN.key: 1})
