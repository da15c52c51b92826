"""What moving bytes costs between zones, regions and clouds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.offers.prices import data_rows, regions_by_cloud, zones_by_region
from control.offers.traffic import traffic_prices

ZONES = [f"{cloud}/{zone}" for (cloud, _), zones in zones_by_region().items() for zone in zones]


@pytest.mark.parametrize(
    ("source", "target", "usd"),
    [
        ("aws/use2-az1", "aws/use2-az2", 0.02),  # 0.01 out and 0.01 in again
        ("gcp/us-central1-a", "gcp/us-central1-b", 0.01),  # out only
        ("aws/use1-az1", "aws/use2-az1", 0.01),  # the one cheap pair of regions
        ("aws/us-east-2", "aws/ap-northeast-2", 0.02),
        ("aws/ap-northeast-2", "aws/us-east-2", 0.08),
        ("gcp/us-central1-a", "gcp/us-east4-a", 0.02),
        ("gcp/us-central1-a", "gcp/europe-west4-a", 0.05),
        ("gcp/us-central1-a", "gcp/asia-northeast1-a", 0.08),
        ("gcp/asia-northeast1-a", "gcp/us-central1-a", 0.08),
        ("azure/eastus", "azure/westus3", 0.02),
        ("azure/eastus", "azure/westeurope", 0.05),
        ("azure/japaneast", "azure/eastus", 0.08),
        ("aws/us-east-2", "gcp/us-central1", 0.09),  # internet egress of the source, nothing at the target
        ("gcp/us-central1-a", "aws/use2-az1", 0.085),
        ("aws/apne2-az1", "gcp/us-central1-a", 0.126),
        ("runpod/any", "aws/use2-az1", 0.0),
        ("aws/ap-southeast-5", "aws/us-east-2", 0.154),  # no price between regions is known: never less than egress
    ],
)
def test_a_crossing_costs_egress_and_ingress(source: str, target: str, usd: float) -> None:
    prices = {(p.source, p.target): p.usd_per_gb for p in traffic_prices([source, target])}
    assert prices[source, target] == pytest.approx(usd)


def test_a_zone_costs_nothing_towards_itself_and_has_no_row() -> None:
    assert traffic_prices(["aws/use2-az1", "aws/use2-az1"]) == ()


def test_a_zone_of_an_unknown_cloud_has_no_crossing() -> None:
    assert traffic_prices(["onprem/hall-a", "aws/use2-az1"]) == ()


@given(st.lists(st.sampled_from(ZONES), max_size=6, unique=True))
def test_every_pair_of_known_zones_has_one_price_that_is_not_negative(zones: list[str]) -> None:
    prices = traffic_prices(zones)
    assert len({(p.source, p.target) for p in prices}) == len(prices) == len(zones) * (len(zones) - 1)
    assert all(0 <= p.usd_per_gb < 0.2 for p in prices)
    assert prices == traffic_prices(reversed(zones))


def test_every_region_with_prices_has_traffic_prices_with_source_and_date() -> None:
    rows = {(r["cloud"], r["region"]): r for r in data_rows("traffic_zones.csv")}
    assert set(rows) == {(c, r) for c, regions in regions_by_cloud().items() for r in regions}
    assert all(r["source"] and r["date"] for r in [*rows.values(), *data_rows("traffic_regions.csv")])
    assert all(r["continent"] for (cloud, _), r in rows.items() if cloud in ("gcp", "azure"))
