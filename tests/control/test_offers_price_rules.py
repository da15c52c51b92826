"""The rules that made the shipped snapshot, on rows made by hand: one test per trap of the price data."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.extracts.price_rules import (
    ALL_ZONES,
    ON_DEMAND,
    SPOT,
    Quote,
    believable_on_demand,
    interruptions_per_hour,
    merge,
    price,
    spot_price,
    whole_gpus,
)


def quote(usd: float, date: str = "2026", zone: str = "a", market: str = ON_DEMAND, source: str = "s") -> Quote:
    return Quote("c", "r", zone, "m", market, usd, source, date)


@pytest.mark.parametrize("cell", ["", "0", "0.0", "-1", "nan", "inf", "n/a"])
def test_a_cell_that_is_no_price_is_unknown_never_free(cell: str) -> None:
    assert price(cell) is None


def test_spot_equal_to_on_demand_means_the_pool_is_exhausted() -> None:
    assert spot_price("110.24", 110.24) is None
    assert spot_price("120", 110.24) is None


def test_an_empty_spot_cell_means_that_spot_is_not_sold() -> None:
    assert spot_price("", 5.0) is None
    assert spot_price("0.0", 5.0) is None
    assert spot_price("4.99", 5.0) == 4.99


@pytest.mark.parametrize(("cell", "count"), [("0.167", None), ("0.5", None), ("1.0", 1), ("8", 8), ("1.5", None)])
def test_a_slice_of_a_gpu_is_no_machine(cell: str, count: int | None) -> None:
    assert whole_gpus(cell) == count


def test_a_flex_price_of_half_the_list_gives_way_to_the_list() -> None:
    kept = believable_on_demand({"us-central1": 43.07, "us-east4": 87.83}, {"us-central1": 88.49, "us-east4": 88.56})
    assert kept == {"us-central1": 88.49, "us-east4": 88.56}


def test_without_a_list_a_price_far_below_the_other_regions_is_left_out() -> None:
    assert believable_on_demand({"us-central1": 86.76, "us-south1": 51.08}, {}) == {"us-central1": 86.76}


def test_a_region_that_the_list_lacks_is_kept_when_its_price_is_believable() -> None:
    kept = believable_on_demand({"us-west1": 92.21, "us-east5": 46.05, "us-east4": 92.2}, {"us-east4": 92.94})
    assert kept == {"us-east4": 92.94, "us-west1": 92.21}


def test_no_prices_give_no_prices() -> None:
    assert believable_on_demand({}, {}) == {}


def test_the_newest_of_several_quotes_is_kept() -> None:
    assert merge([quote(1.1, "2025-11-30"), quote(1.0, "2026-10-01"), quote(1.2, "2026")]) == [quote(1.0, "2026-10-01")]


def test_a_price_that_flips_within_a_day_keeps_its_minimum() -> None:
    assert merge([quote(5.528), quote(5.19)]) == [quote(5.19)]


def test_equal_rows_occur_once() -> None:
    assert merge([quote(1.0), quote(1.0), quote(1.0)]) == [quote(1.0)]


def test_zones_are_kept_and_take_the_newer_price_of_the_region() -> None:
    zones = [quote(30.0, "2026", "a"), quote(30.0, "2026", "b")]
    region = quote(27.0, "2026-10-01", ALL_ZONES, source="list")
    assert merge([*zones, region]) == [quote(27.0, "2026-10-01", z, source="list") for z in "ab"]


def test_zones_of_a_newer_source_replace_the_price_of_the_region() -> None:
    assert merge([quote(30.0, "2025", ALL_ZONES), quote(29.0, "2026", "a")]) == [quote(29.0, "2026", "a")]


def test_spot_that_a_newer_on_demand_price_undercuts_is_dropped() -> None:
    older_spot = quote(1.2, "2025", ALL_ZONES, SPOT)
    assert merge([quote(1.0, "2026", ALL_ZONES), older_spot]) == [quote(1.0, "2026", ALL_ZONES)]
    assert merge([quote(1.0, "2026", "a"), quote(1.0, "2026", "b", SPOT), quote(1.1, "2026", "b")]) == [
        quote(1.0, "2026", "a"),
        quote(1.1, "2026", "b"),
        quote(1.0, "2026", "b", SPOT),
    ]


def test_an_advisor_class_is_a_hazard_rate_per_hour() -> None:
    assert interruptions_per_hour("5-10%") == pytest.approx(-math.log(0.9) / 730)
    assert interruptions_per_hour("<5%") < interruptions_per_hour("15-20%") < interruptions_per_hour(">20%")


def test_an_unknown_class_counts_as_the_worst() -> None:
    assert interruptions_per_hour("") == interruptions_per_hour(">20%") > 0


quotes = st.builds(
    quote,
    st.floats(0.1, 10),
    st.sampled_from(["2024", "2025-06", "2026-10-01"]),
    st.sampled_from([ALL_ZONES, "a", "b"]),
    st.sampled_from([ON_DEMAND, SPOT]),
)


@given(st.lists(quotes, max_size=12))
def test_a_merged_market_has_one_price_per_machine_and_spot_below_on_demand(some: list[Quote]) -> None:
    merged = merge(some)
    keys = [(q.zone, q.market) for q in merged]
    assert len(keys) == len(set(keys))
    for market in (ON_DEMAND, SPOT):
        zones = {q.zone for q in merged if q.market == market}
        assert ALL_ZONES not in zones or len(zones) == 1
    on_demand = {q.zone: q.usd_per_hour for q in merged if q.market == ON_DEMAND}
    for q in merged:
        if q.market == SPOT:
            assert q.usd_per_hour < on_demand.get(q.zone, math.inf)
            assert q.usd_per_hour < on_demand.get(ALL_ZONES, math.inf)
            assert q.zone != ALL_ZONES or q.usd_per_hour < min(on_demand.values(), default=math.inf)


@given(st.lists(quotes, max_size=8), st.randoms())
def test_merging_does_not_depend_on_the_order_of_quotes(some: list[Quote], random: object) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge(shuffled) == merge(some)
