"""Offers from the snapshot: what a selection brings, the paper's market, sizes that nobody sells."""

import pytest

from control.offers.derive import derive
from control.offers.prices import regions_by_cloud
from control.offers.quotes import OfferError, Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers, merge_zones, one_machine_per_size
from templates_lib.values.hardware import UnknownHardwareError, node_config_from_id
from templates_lib.values.offer import Market, Offer

CORE_REGIONS = ("us-east-2", "ap-northeast-2")
CORE_GPUS = ("L40S", "L4", "A10G")
EXTENDED_GPUS = (*CORE_GPUS, "A100-40", "H100")
SIZES = (1, 2, 4, 8)
BOTH = (Market.ON_DEMAND, Market.SPOT)


def everything() -> Quotes:
    return ShippedOffers([Selection(cloud, markets=BOTH) for cloud in regions_by_cloud()]).fetch()


def core() -> Quotes:
    return ShippedOffers([Selection("aws", CORE_REGIONS, CORE_GPUS, SIZES, derived=True)], by_region=True).fetch()


def extended() -> Quotes:
    clouds = [("aws", CORE_REGIONS), ("gcp", ("us-central1",))]
    return ShippedOffers([Selection(c, r, EXTENDED_GPUS, SIZES, derived=True) for c, r in clouds], True).fetch()


def offer(zone: str, machine: str, config: str, usd: float, region: str = "r") -> Offer:
    return Offer("c", region, zone, machine, config, Market.ON_DEMAND, usd)


def quotes(*offers: Offer) -> Quotes:
    return Quotes(offers, {o.node_config: node_config_from_id(o.node_config) for o in offers})


def test_every_offer_of_the_snapshot_can_be_planned_with() -> None:
    market = everything()
    assert not market.quarantined
    assert {o.cloud for o in market.offers} == {"aws", "gcp", "azure", "runpod", "lambda"}
    for o in market.offers:
        assert o.usd_per_hour > 0
        assert market.configs[o.node_config].id == o.node_config
        assert o.source
        assert o.observed_at
        assert not o.derived
        assert o.available_count is None
    assert len({o.key for o in market.offers}) == len(market.offers)


def test_spot_is_never_dearer_than_on_demand_in_the_same_zone() -> None:
    market = everything()
    on_demand = {(o.zone_id, o.instance_type): o.usd_per_hour for o in market.offers if o.market is Market.ON_DEMAND}
    spot = [o for o in market.offers if o.market is Market.SPOT]
    assert spot
    assert all(o.usd_per_hour <= on_demand.get((o.zone_id, o.instance_type), o.usd_per_hour) for o in spot)


def test_a_selection_brings_only_what_it_names() -> None:
    market = ShippedOffers([Selection("gcp", ("us-central1",), ("L4",), (2, 4), BOTH)]).fetch()
    assert {o.region for o in market.offers} == {"us-central1"}
    assert {market.configs[o.node_config].gpu for o in market.offers} == {"L4"}
    assert {market.configs[o.node_config].gpu_count for o in market.offers} == {2, 4}
    assert {o.market for o in market.offers} == set(BOTH)
    assert {o.zone for o in market.offers} == {"us-central1-a", "us-central1-b", "us-central1-c"}


def test_without_spot_asked_for_there_is_no_spot() -> None:
    assert {o.market for o in ShippedOffers([Selection("aws")]).fetch().offers} == {Market.ON_DEMAND}


def test_a_price_of_a_region_is_offered_in_its_known_zones_and_a_note_says_so() -> None:
    market = ShippedOffers([Selection("aws", ("us-east-2",), ("A10G",), (1,))]).fetch()
    assert {o.zone for o in market.offers if o.instance_type == "g5.xlarge"} == {"use2-az1", "use2-az2", "use2-az3"}
    assert any("every known zone" in note for note in market.notes)


def test_in_the_papers_market_no_note_speaks_of_zones() -> None:
    assert not any("zone" in note for note in core().notes)


def test_a_region_without_known_zones_is_a_zone_of_its_own() -> None:
    market = ShippedOffers([Selection("azure", ("eastus",))]).fetch()
    assert {o.zone_id for o in market.offers} == {"azure/eastus"}


def test_traffic_is_priced_between_all_zones_of_the_market() -> None:
    market = ShippedOffers([Selection("aws", ("us-east-2",), ("L4",))]).fetch()
    assert len(market.traffic) == len(market.zones) * (len(market.zones) - 1)


def test_a_gpu_that_a_cloud_does_not_sell_is_a_note_not_an_error() -> None:
    market = ShippedOffers([Selection("gcp", ("us-central1",), ("L4", "L40S"))]).fetch()
    assert "gcp has no price for L40S in us-central1" in market.notes


def test_the_age_of_the_prices_is_noted() -> None:
    market = ShippedOffers([Selection("runpod", gpus=("L40",), markets=BOTH)]).fetch()
    assert "prices are a snapshot: oldest 2024, newest 2026" in market.notes


@pytest.mark.parametrize(
    ("selection", "error", "hint"),
    [
        (Selection("asw"), OfferError, "did you mean 'aws'"),
        (
            Selection("aws", ("us-east-3",)),
            OfferError,
            "no prices for region 'us-east-3' of aws; did you mean 'us-east-",
        ),
        (Selection("gcp", ("us-east-2",)), OfferError, "of gcp"),
        (Selection("aws", gpus=("L40s",)), UnknownHardwareError, "did you mean 'L40S'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(selection: Selection, error: type[Exception], hint: str) -> None:
    with pytest.raises(error, match=hint):
        ShippedOffers([selection]).fetch()


# -- the paper's market ----------------------------------------------------------------------------------------------


def test_the_core_set_up_has_two_zones_and_twelve_configurations() -> None:
    market = core()
    assert market.zones == ("aws/ap-northeast-2", "aws/us-east-2")
    assert {(c.gpu, c.gpu_count) for c in market.configs.values()} == {(g, n) for g in CORE_GPUS for n in SIZES}
    assert len(market.configs) == 12
    assert len(market.offers) == 24


def test_the_extended_set_up_has_three_zones_and_twenty_configurations() -> None:
    market = extended()
    assert market.zones == ("aws/ap-northeast-2", "aws/us-east-2", "gcp/us-central1")
    assert {(c.gpu, c.gpu_count) for c in market.configs.values()} == {(g, n) for g in EXTENDED_GPUS for n in SIZES}
    assert len(market.configs) == 20


def test_only_sizes_that_are_not_sold_are_derived_and_they_say_from_what() -> None:
    derived = {o.instance_type: o for o in core().offers if o.derived and o.region == "us-east-2"}
    assert set(derived) == {"derived-L4x2", "derived-A10Gx2", "derived-L40Sx2"}
    assert derived["derived-L4x2"].usd_per_hour == pytest.approx(2 * 0.8048)
    assert derived["derived-L4x2"].source == "aws-skypilot-v9, per GPU from g6.xlarge"


def test_nothing_is_derived_unless_asked_for() -> None:
    market = ShippedOffers([Selection("aws", CORE_REGIONS, CORE_GPUS, SIZES)], by_region=True).fetch()
    assert not any(o.derived for o in market.offers)
    assert 2 not in {c.gpu_count for c in market.configs.values()}


def test_sizes_that_were_only_needed_to_derive_from_are_not_offered() -> None:
    market = ShippedOffers([Selection("aws", ("us-east-2",), ("L4",), (2,), derived=True)]).fetch()
    assert {c.gpu_count for c in market.configs.values()} == {2}
    assert {o.instance_type for o in market.offers} == {"derived-L4x2"}


def test_one_cloud_may_derive_while_another_does_not() -> None:
    selections = [
        Selection("aws", ("us-east-2",), ("L4",), (2,), derived=True),
        Selection("gcp", ("us-central1",), ("L4",), (8,)),
    ]
    market = ShippedOffers(selections).fetch()
    sizes = {(o.cloud, market.configs[o.node_config].gpu_count, o.derived) for o in market.offers}
    assert sizes == {("aws", 2, True), ("gcp", 8, False)}


def test_selections_of_one_cloud_do_not_leak_into_each_other() -> None:
    selections = [
        Selection("aws", ("us-east-2",), ("L4",), (2,), derived=True),
        Selection("aws", ("us-west-2",), ("L4",), (1, 2)),
    ]
    market = ShippedOffers(selections).fetch()
    sizes = {(o.region, market.configs[o.node_config].gpu_count) for o in market.offers}
    assert sizes == {("us-east-2", 2), ("us-west-2", 1)}


def test_a_size_is_derived_once_however_often_it_is_asked_for() -> None:
    regions = ("us-east-2", "us-west-2")
    market = ShippedOffers([Selection("aws", (r,), ("L4",), (2,), derived=True) for r in regions]).fetch()
    assert len({o.key for o in market.offers}) == len(market.offers)
    assert {o.region for o in market.offers} == set(regions)


def test_a_region_costs_what_its_cheapest_zone_costs() -> None:
    merged = merge_zones(quotes(offer("a", "m", "L4:1/n10", 2.0), offer("b", "m", "L4:1/n10", 1.5)))
    assert [(o.zone, o.usd_per_hour) for o in merged.offers] == [("r", 1.5)]


def test_a_size_is_its_cheapest_machine_and_one_configuration_everywhere() -> None:
    market = one_machine_per_size(
        quotes(
            offer("a", "lean", "L4:4/n25", 4.0, "a"),
            offer("a", "fat", "L4:4/n50", 5.0, "a"),
            offer("b", "other", "L4:4/n50", 3.0, "b"),
        )
    )
    assert [(o.instance_type, o.node_config) for o in market.offers] == [("lean", "L4:4/n25"), ("other", "L4:4/n25")]
    assert list(market.configs) == ["L4:4/n25"]


def test_machines_that_cannot_be_joined_do_not_pull_others_down() -> None:
    market = one_machine_per_size(quotes(offer("a", "pod", "L40S:1/n0", 0.8), offer("a", "vm", "L40S:1/n10", 1.8)))
    assert {o.instance_type: o.node_config for o in market.offers} == {"pod": "L40S:1/n0", "vm": "L40S:1/n10"}


@pytest.mark.parametrize(("count", "source", "usd"), [(2, "one", 2.0), (4, "eight", 8.0), (16, "eight", 32.0)])
def test_a_derived_size_is_priced_per_gpu_from_the_nearest_sold_size(count: int, source: str, usd: float) -> None:
    sold = quotes(offer("a", "one", "H100:1/n100", 1.0), offer("a", "eight", "H100:8/n200", 16.0))
    made = next(o for o in derive(sold, "c", ["H100"], [count]).offers if o.derived)
    assert made.instance_type == f"derived-H100x{count}"
    assert made.usd_per_hour == usd
    assert made.source.endswith(source)


def test_a_derived_machine_has_its_share_of_network_and_memory() -> None:
    sold = quotes(offer("a", "four", "L40S:4/n100", 10.0))
    market = derive(sold, "c", ["L40S"], [2])
    made = next(o for o in market.offers if o.derived)
    whole, half = market.configs["L40S:4/n100"], market.configs[made.node_config]
    assert half.network_gbps == whole.network_gbps / 2
    assert half.host_memory_gib == whole.host_memory_gib / 2
    assert half.id == "L40S:2/n50"


def test_a_gpu_that_a_zone_does_not_sell_at_all_is_not_derived() -> None:
    sold = quotes(offer("a", "one", "H100:1/n100", 1.0))
    assert derive(sold, "c", ["L4"], [1, 2]).offers == sold.offers
