"""The shipped snapshot of prices: sound in every row, and free of the traps of its sources."""

import math
from collections import Counter
from importlib.resources import files

import pytest

from control.offers.prices import PriceRow, data_rows, price_rows, regions_by_cloud, zones_by_region
from templates_lib.values.hardware import instance_type, load_instance_types
from templates_lib.values.offer import Market

CLOUDS = {"aws", "gcp", "azure", "runpod", "lambda"}
WORST_CLASS = -math.log(0.7) / 730


def rows(**wanted: object) -> list[PriceRow]:
    return [r for r in price_rows() if all(getattr(r, k) == v for k, v in wanted.items())]


def only(**wanted: object) -> float:
    return {r.usd_per_hour for r in rows(**wanted)}.pop()


def test_no_price_is_zero_negative_or_not_a_number() -> None:
    assert all(math.isfinite(r.usd_per_hour) and r.usd_per_hour > 0 for r in price_rows())


def test_every_price_has_a_described_source_and_a_date() -> None:
    described = {r["source"] for r in data_rows("sources.csv") if r["title"] and r["licence"]}
    assert {r.source for r in price_rows()} <= described
    assert all(r.date[:4].isdigit() and 4 <= len(r.date) <= 10 for r in price_rows())


def test_every_price_is_of_a_known_machine() -> None:
    for r in price_rows():
        assert instance_type(r.cloud, r.instance_type).config_id


def test_every_price_occurs_once() -> None:
    counts = Counter((r.cloud, r.region, r.zone, r.instance_type, r.market) for r in price_rows())
    assert max(counts.values()) == 1


def test_a_machine_is_priced_per_region_or_per_zone_never_both() -> None:
    zones: dict[tuple[object, ...], set[bool]] = {}
    for r in price_rows():
        zones.setdefault((r.cloud, r.region, r.instance_type, r.market), set()).add(bool(r.zone))
    assert all(len(kinds) == 1 for kinds in zones.values())


def test_spot_is_below_on_demand() -> None:
    on_demand: dict[tuple[str, str, str], list[float]] = {}
    for r in rows(market=Market.ON_DEMAND):
        on_demand.setdefault((r.cloud, r.region, r.instance_type), []).append(r.usd_per_hour)
    spot_only = {("gcp", f"a3-highgpu-{n}g") for n in (1, 2, 4)}
    spot = [r for r in rows(market=Market.SPOT) if (r.cloud, r.instance_type) not in spot_only]
    assert spot
    assert all(r.usd_per_hour < max(on_demand[r.cloud, r.region, r.instance_type]) for r in spot)


def test_machines_that_google_starts_as_spot_or_flex_only_are_not_offered_on_demand() -> None:
    machines = {r.instance_type for r in rows(cloud="gcp", market=Market.ON_DEMAND)}
    assert "a3-highgpu-8g" in machines
    assert machines.isdisjoint({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})


def test_only_spot_is_interrupted_and_all_spot_is() -> None:
    assert all((r.interruptions_per_hour > 0) == (r.market is Market.SPOT) for r in price_rows())


def test_five_clouds_sell_in_two_markets_where_they_have_both() -> None:
    assert set(regions_by_cloud()) == CLOUDS
    assert {r.cloud for r in rows(market=Market.SPOT)} == {"aws", "gcp", "azure", "runpod"}


def test_every_zone_belongs_to_a_region_with_prices() -> None:
    for cloud, region in zones_by_region():
        assert region in regions_by_cloud()[cloud]
    assert {r.zone for r in price_rows() if r.zone} == {z for zones in zones_by_region().values() for z in zones}


def test_the_snapshot_is_small() -> None:
    folder = files("templates_lib").joinpath("data", "prices")
    assert sum(len(p.read_bytes()) for p in folder.iterdir()) < 300_000


# -- the traps that the README of the price data names ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "region", "usd"),
    [
        ("a3-highgpu-8g", "us-central1", 88.49),
        ("a2-ultragpu-8g", "us-central1", 40.55038),
        ("a2-highgpu-8g", "europe-west4", 29.98378),
    ],
)
def test_gcp_on_demand_is_the_list_price_not_a_flex_price_of_half(machine: str, region: str, usd: float) -> None:
    assert only(cloud="gcp", region=region, instance_type=machine, market=Market.ON_DEMAND) == usd


def test_no_gcp_machine_costs_less_than_two_thirds_of_what_it_costs_elsewhere() -> None:
    prices: dict[str, list[float]] = {}
    for r in rows(cloud="gcp", market=Market.ON_DEMAND):
        prices.setdefault(r.instance_type, []).append(r.usd_per_hour)
    for machine, found in prices.items():
        assert min(found) > max(found) * 0.6, machine


def test_gcp_machines_cost_host_and_gpu_together() -> None:
    assert only(cloud="gcp", region="us-central1", instance_type="g2-standard-4", market=Market.ON_DEMAND) == 0.70683


def test_aws_on_demand_did_not_flip_to_dedicated_tenancy() -> None:
    assert only(cloud="aws", region="us-east-1", instance_type="g4dn.xlarge", market=Market.ON_DEMAND) == 0.526
    assert only(cloud="aws", region="af-south-1", instance_type="g4dn.12xlarge", market=Market.ON_DEMAND) == 5.19


def test_aws_prices_are_those_after_the_cut_of_2025() -> None:
    assert only(cloud="aws", region="us-east-1", instance_type="p5.48xlarge", market=Market.ON_DEMAND) == 55.04


def test_the_newest_source_wins_where_it_speaks() -> None:
    found = rows(cloud="aws", region="us-east-1", instance_type="p4d.24xlarge", market=Market.ON_DEMAND)
    assert {r.source for r in found} == {"aws-azure-list"}
    assert all(r.zone for r in found)


def test_azure_h200_has_no_spot_for_its_spot_price_is_its_list_price() -> None:
    assert rows(cloud="azure", instance_type="Standard_ND96isr_H200_v5", market=Market.ON_DEMAND)
    assert not rows(cloud="azure", instance_type="Standard_ND96isr_H200_v5", market=Market.SPOT)


def test_slices_of_a_gpu_and_other_cards_under_the_same_name_are_left_out() -> None:
    names = {(m.cloud, m.name) for m in load_instance_types()}
    assert not any(name.startswith(("Standard_NV", "g6f", "gr6f")) for _, name in names)
    assert ("azure", "Standard_NC40ads_H100_v5") not in names, "an H100 NVL with 94 GB"
    assert ("azure", "Standard_NC24ads_A100_v4") not in names, "an A100 PCIe"
    assert ("lambda", "gpu_1x_h100_pcie") not in names


@pytest.mark.parametrize("cloud", ["lambda", "runpod"])
def test_a_price_that_is_the_same_everywhere_is_kept_once(cloud: str) -> None:
    assert regions_by_cloud()[cloud] == {"any"}


def test_lambda_has_no_spot() -> None:
    assert not rows(cloud="lambda", market=Market.SPOT)


def test_runpod_prices_are_linear_in_the_count() -> None:
    for market in (Market.ON_DEMAND, Market.SPOT):
        found = {r.instance_type: r.usd_per_hour for r in rows(cloud="runpod", market=market)}
        for name, usd in found.items():
            count, _, card = name.partition("x_")
            assert usd == pytest.approx(found[f"1x_{card}"] * int(count))


def test_runpod_sells_the_cards_of_its_secure_cloud_at_their_list_price() -> None:
    assert only(cloud="runpod", instance_type="1x_L40S_SECURE", market=Market.ON_DEMAND) == 0.99
    assert only(cloud="runpod", instance_type="8x_H100-SXM_SECURE", market=Market.ON_DEMAND) == 26.32


def test_aws_spot_carries_the_interruption_class_of_its_region_and_machine() -> None:
    found = rows(cloud="aws", region="us-east-2", instance_type="g6.xlarge", market=Market.SPOT)
    assert {r.zone for r in found} == {"use2-az1", "use2-az2", "use2-az3"}
    assert len({r.usd_per_hour for r in found}) == 3, "spot is priced per zone"
    assert all(r.interruptions_per_hour == pytest.approx(WORST_CLASS, rel=0.01) for r in found)


def test_zone_names_of_aws_are_ids_that_mean_the_same_in_every_account() -> None:
    assert all("-az" in zone for (cloud, _), zones in zones_by_region().items() if cloud == "aws" for zone in zones)


def test_edge_zones_and_government_regions_are_left_out() -> None:
    assert not any(r.region.startswith("us-gov") or r.region.count("-") > 2 for r in rows(cloud="aws"))
