"""Quotas of an account as supply pools."""

import math

import pytest

from control.offers.pools import QuotaLimit, quota_pools
from control.offers.quotes import OfferError, Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from templates_lib.values.offer import Market

BOTH = (Market.ON_DEMAND, Market.SPOT)


def aws(gpus: tuple[str, ...] = ("L4", "L40S", "H100"), **more: object) -> Quotes:
    return ShippedOffers([Selection("aws", ("us-east-2", "us-west-2"), gpus, markets=BOTH, **more)]).fetch()  # type: ignore[arg-type]


def test_without_limits_there_are_no_pools() -> None:
    market = aws()
    assert quota_pools(market.offers, market.configs, []) == ()


def test_an_aws_quota_counts_vcpus_of_a_family_in_a_region_and_market() -> None:
    market = aws()
    (pool,) = quota_pools(market.offers, market.configs, [QuotaLimit("aws", "us-east-2", "G-VT", 96)])
    assert (pool.id, pool.limit, pool.unit) == ("aws/us-east-2/G-VT/on-demand", 96, "vcpus")
    assert pool.members["aws/use2-az1/g6.xlarge/on-demand"] == 4
    assert pool.members["aws/use2-az2/g6e.48xlarge/on-demand"] == 192
    keys = {o.key for o in market.offers if o.region == "us-east-2" and o.market is Market.ON_DEMAND}
    assert set(pool.members) == {k for k in keys if "/g6" in k or "/gr6" in k}


def test_spot_has_a_pool_of_its_own() -> None:
    market = aws(("L4",))
    limits = [QuotaLimit("aws", "us-east-2", "G-VT", 8, m) for m in BOTH]
    first, second = quota_pools(market.offers, market.configs, limits)
    assert not set(first.members) & set(second.members)


def test_a_gcp_quota_counts_gpus_of_a_type() -> None:
    market = ShippedOffers([Selection("gcp", ("us-central1",), ("L4", "H100"))]).fetch()
    (pool,) = quota_pools(market.offers, market.configs, [QuotaLimit("gcp", "us-central1", "NVIDIA_L4_GPUS", 16)])
    assert pool.unit == "gpus"
    assert pool.members["gcp/us-central1-a/g2-standard-48/on-demand"] == 4
    assert all("/g2-" in key for key in pool.members)


def test_a_derived_size_counts_against_the_quota_of_its_gpu() -> None:
    market = aws(("L4",), counts=(2,), derived=True)
    (pool,) = quota_pools(market.offers, market.configs, [QuotaLimit("aws", "us-east-2", "G-VT", 8)])
    assert pool.members["aws/use2-az1/derived-L4x2/on-demand"] == 8


def test_a_limit_that_no_offer_counts_against_makes_no_pool() -> None:
    market = aws(("L4",))
    assert quota_pools(market.offers, market.configs, [QuotaLimit("aws", "us-east-2", "P5", 192)]) == ()


def test_an_unknown_family_is_answered_with_the_nearest() -> None:
    with pytest.raises(OfferError, match="unknown quota family 'G-VTT' of aws; did you mean 'G-VT'"):
        quota_pools([], {}, [QuotaLimit("aws", "us-east-2", "G-VTT", 8)])
    with pytest.raises(OfferError, match="has no quota families"):
        quota_pools([], {}, [QuotaLimit("runpod", "any", "G", 8)])


@pytest.mark.parametrize("limit", [-1.0, math.nan, math.inf])
def test_a_limit_that_is_no_amount_is_refused(limit: float) -> None:
    with pytest.raises(OfferError, match="must be 0 or more"):
        quota_pools([], {}, [QuotaLimit("aws", "us-east-2", "P5", limit)])
