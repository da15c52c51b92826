"""Impossible prices are set apart with a reason, and sources are put together."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.offers.combined import combined
from control.offers.quarantine import quarantine
from control.offers.quotes import Quotes
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice


def offer(usd: float, market: Market = Market.SPOT, machine: str = "g6.xlarge", cloud: str = "aws") -> Offer:
    return Offer(cloud, "us-east-2", "use2-az1", machine, "L4:1/n10", market, usd)


def quotes(*offers: Offer, by_person: bool = False) -> Quotes:
    configs = {o.node_config: node_config_from_id(o.node_config) for o in offers}
    return Quotes(offers, configs, already_checked=by_person)


@pytest.mark.parametrize(
    ("usd", "reason"), [(0.0, "unknown, not free"), (-1.0, "negative"), (math.nan, "not a number"), (math.inf, "not a")]
)
def test_an_impossible_price_is_set_apart_with_its_reason(usd: float, reason: str) -> None:
    good, bad = quarantine([offer(usd)])
    assert good == ()
    assert bad[0].offer.key == offer(usd).key
    assert reason in bad[0].reason


def test_only_owned_machines_may_cost_nothing() -> None:
    good, bad = quarantine([offer(0.0, Market.OWNED)])
    assert len(good) == 1
    assert not bad


@pytest.mark.parametrize(("usd", "is_good"), [(1.0, True), (3.0, True), (3.01, False), (0.34, True), (0.33, False)])
def test_a_price_three_times_off_the_last_known_is_set_apart(usd: float, is_good: bool) -> None:
    good, bad = quarantine([offer(usd)], {offer(1.0).key: 1.0})
    assert bool(good) is is_good
    assert bool(bad) is not is_good
    assert is_good or "off the last known $1/h" in bad[0].reason


def test_an_offer_without_a_last_price_is_judged_alone() -> None:
    assert len(quarantine([offer(99.0)], {"other": 1.0})[0]) == 1


prices = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(prices, max_size=20), st.dictionaries(st.sampled_from([f"m{i}" for i in range(20)]), prices))
def test_no_offer_is_ever_lost(some: list[float], last: dict[str, float]) -> None:
    offers = [offer(usd, machine=f"m{i}") for i, usd in enumerate(some)]
    good, bad = quarantine(offers, {offer(1.0, machine=m).key: usd for m, usd in last.items()})
    found = [o.instance_type for o in good] + [q.offer.instance_type for q in bad]
    assert sorted(found) == sorted(o.instance_type for o in offers)
    assert all(math.isfinite(o.usd_per_hour) and o.usd_per_hour > 0 for o in good)
    assert all(q.reason for q in bad)


def test_a_later_source_replaces_the_price_of_an_earlier_one() -> None:
    market = combined([quotes(offer(1.0)), quotes(offer(1.5))])
    assert [o.usd_per_hour for o in market.offers] == [1.5]


def test_a_later_price_that_is_far_off_is_quarantined_and_the_earlier_stays() -> None:
    market = combined([quotes(offer(1.0)), quotes(offer(0.1))])
    assert [o.usd_per_hour for o in market.offers] == [1.0]
    assert len(market.quarantined) == 1


def test_a_price_that_a_person_stated_is_not_doubted() -> None:
    market = combined([quotes(offer(1.0)), quotes(offer(0.1), by_person=True)])
    assert [o.usd_per_hour for o in market.offers] == [0.1]
    assert not market.quarantined


def test_crossings_between_sources_are_priced() -> None:
    elsewhere = Offer("gcp", "us-central1", "us-central1-a", "g2-standard-4", "L4:1/n10", Market.SPOT, 0.4)
    market = combined([quotes(offer(1.0)), quotes(elsewhere)])
    assert {(t.source, t.target) for t in market.traffic} == {
        ("aws/use2-az1", "gcp/us-central1-a"),
        ("gcp/us-central1-a", "aws/use2-az1"),
    }


def test_a_stated_crossing_and_pool_replace_earlier_ones() -> None:
    priced = TrafficPrice("aws/use2-az1", "gcp/us-central1-a", 0.01)
    pool = SupplyPool("p", 2, "nodes", {"k": 1})
    first = Quotes((offer(1.0),), quotes(offer(1.0)).configs, pools=(SupplyPool("p", 1, "nodes", {"k": 1}),))
    market = combined([first, Quotes((), {}, (pool,), (priced,))])
    assert market.pools == (pool,)
    assert market.traffic == (priced,)


def test_a_shared_configuration_carries_the_least_shape_of_both_sources() -> None:
    config = node_config_from_id("L4:1/n10")
    lean = type(config)(config.id, "L4", 1, 256, 10, 8)
    market = combined([quotes(offer(1.0)), Quotes((offer(1.0, machine="m"),), {config.id: lean})])
    assert market.configs["L4:1/n10"].host_memory_gib == 8
