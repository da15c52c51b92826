"""What a measurement may cost is known before anything is rented."""

from dataclasses import replace

import pytest

from control.offers.quotes import Quotes
from control.profiles.quotation import END_MINUTES, Limits, QuotationError, Wanted, quote
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer

CONFIGS = ("L40S:1/n10", "L40S:1/n25", "L40S:4/n50")


def offer(config: str, zone: str, usd: float, **more: object) -> Offer:
    made = Offer("aws", zone[:-1], zone, f"m{config[:6]}", config, Market.ON_DEMAND, usd)
    return replace(made, **more)  # type: ignore[arg-type]


OFFERS = (
    offer("L40S:1/n10", "us-east-1b", 2.0),
    offer("L40S:1/n10", "us-east-1a", 1.8),
    offer("L40S:1/n10", "us-east-1c", 1.0, available_count=0),
    offer("L40S:1/n10", "us-east-1d", 0.5, derived=True),
    offer("L40S:1/n25", "us-east-1a", 1.9),
    offer("L40S:1/n10", "us-east-1a", 0.7, market=Market.SPOT),
    offer("L40S:1/n10", "eu-west-1a", 0.1, cloud="gcp"),
    offer("L40S:4/n50", "us-east-1a", 9.0),
)
QUOTES = Quotes(OFFERS, {each: node_config_from_id(each) for each in CONFIGS})
LIMITS = Limits(usd=100.0, minutes=30.0)
ONE = Wanted("aws", "L40S:1", Market.ON_DEMAND)


def zones(wanted: Wanted, limits: Limits = LIMITS) -> list[tuple[str, str]]:
    return [(each.node_config, each.zone) for each in quote(QUOTES, wanted, limits).offers]


def test_the_cheapest_that_is_sold_comes_first_and_only_its_configuration_follows() -> None:
    assert zones(ONE) == [("L40S:1/n10", "us-east-1a"), ("L40S:1/n10", "us-east-1b")]
    assert zones(replace(ONE, config="L40S:1/n25")) == [("L40S:1/n25", "us-east-1a")]
    assert zones(replace(ONE, zone="us-east-1b")) == [("L40S:1/n10", "us-east-1b")]
    assert quote(QUOTES, replace(ONE, market=Market.SPOT), LIMITS).offers[0].usd_per_hour == 0.7


def test_what_it_may_cost_counts_nodes_disks_and_their_end() -> None:
    wanted = replace(ONE, nodes=2, disk_usd_per_hour=0.2)
    quotation = quote(QUOTES, wanted, LIMITS)
    assert quotation.most_usd == pytest.approx(2 * (2.0 + 0.2) * (30.0 + END_MINUTES) / 60)


def test_dearer_offers_than_the_limit_are_not_asked_and_where_none_is_left_it_says_what_would_do() -> None:
    just = 1.8 * (30.0 + END_MINUTES) / 60
    assert zones(ONE, Limits(just + 0.001, 30.0)) == [("L40S:1/n10", "us-east-1a")]
    with pytest.raises(QuotationError, match=r"may cost 1\.05 \$.*--max-usd 1\.05 or --max-minutes 12"):
        quote(QUOTES, ONE, Limits(0.52, 30.0))
    with pytest.raises(QuotationError, match=r"--max-usd 1\.05$"):
        quote(QUOTES, ONE, Limits(0.0, 30.0))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (replace(ONE, config="L40X:1"), "L40S:1"),
        (replace(ONE, config="L40S:2"), "sells no such"),
        (replace(ONE, cloud="gcp", config="L4:1"), "gcp sells no such"),
        (replace(ONE, zone="us-east-1c"), "in use, refused lately"),
        (replace(ONE, market=Market.SPOT, zone="us-east-1b"), "us-east-1a spot"),
    ],
)
def test_what_is_not_sold_is_refused_with_what_is(wanted: Wanted, words: str) -> None:
    with pytest.raises(QuotationError, match=words):
        quote(QUOTES, wanted, LIMITS)
