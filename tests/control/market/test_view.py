"""Which offers a plan sees: live where a cloud was asked, shipped elsewhere, and none that are not to be had."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from control.cloud.errors import StockOutError
from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from control.market.answers import note_refusal, note_success
from control.market.view import StoredMarket
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from templates_lib.values.hardware import instance_type, node_configs
from templates_lib.values.offer import Market, QuarantinedOffer
from templates_lib.values.settings import Settings
from templates_lib.values.supply import SupplyPool
from tests.control.market.markets import NOON, after, offer

L4 = offer()
NEIGHBOUR = offer("use2-az2")
ON_DEMAND = offer(market=Market.ON_DEMAND, usd_per_hour=0.8)
CONFIGS = node_configs([instance_type("aws", "g6.xlarge")])
MARKETS = (Market.ON_DEMAND, Market.SPOT)
AWS = Selection("aws", ("us-east-2",), ("L4",), (1,), MARKETS)
GCP = Selection("gcp", ("us-central1",), ("L4",), (1,), MARKETS)


@pytest.fixture
def offers(database: Database) -> PostgresOffers:
    offers = PostgresOffers(database)
    pool = SupplyPool("aws/us-east-2/G-VT/spot", 64.0, "vcpus", {L4.key: 4.0, "aws/elsewhere": 4.0}, "service-quotas")
    market = CloudMarket("aws", "aws-api", NOON, NOON, "", "", (L4, NEIGHBOUR, ON_DEMAND), CONFIGS, (pool,))
    offers.answered(market, partly=False)
    return offers


def current_quotes(database: Database, selections: Sequence[Selection], now: datetime) -> Quotes:
    market = StoredMarket.read(database, now)
    return market.judged(market.offers(selections), Settings().guardrails.max_unproven_nodes)


def test_without_any_live_offer_it_is_the_shipped_market(database: Database) -> None:
    quotes = current_quotes(database, [AWS, GCP], NOON)
    shipped = ShippedOffers([AWS, GCP]).fetch()
    assert {o.key: o for o in quotes.offers} == {o.key: o for o in shipped.offers}
    assert quotes.notes == shipped.notes
    assert set(quotes.traffic) == set(shipped.traffic)


@pytest.mark.usefixtures("offers")
def test_a_cloud_that_was_asked_is_live_and_the_others_are_shipped(database: Database) -> None:
    quotes = current_quotes(database, [AWS, GCP], NOON)
    assert {o.key for o in quotes.offers if o.cloud == "aws"} == {L4.key, NEIGHBOUR.key, ON_DEMAND.key}
    assert {o.key for o in quotes.offers if o.cloud == "gcp"} == {o.key for o in ShippedOffers([GCP]).fetch().offers}
    assert [pool.members for pool in quotes.pools] == [{L4.key: 4.0}]
    assert any(
        note.startswith("prices of aws are live (aws-api), read at 2026-11-21T12:00:00") for note in quotes.notes
    )
    assert {(t.source, t.target) for t in quotes.traffic} >= {("aws/use2-az1", "aws/use2-az2")}


@pytest.mark.usefixtures("offers")
def test_a_selection_narrows_live_offers(database: Database) -> None:
    assert [o.key for o in current_quotes(database, [replace(AWS, markets=(Market.ON_DEMAND,))], NOON).offers] == [
        ON_DEMAND.key
    ]
    assert current_quotes(database, [replace(AWS, gpus=("H100",))], NOON).offers == ()
    derived = current_quotes(database, [replace(AWS, counts=(2,), derived=True)], NOON)
    assert {o.instance_type for o in derived.offers} == {"derived-L4x2"}


@pytest.mark.parametrize("reason", ["the session token has expired"])
def test_of_a_cloud_that_is_left_out_nothing_can_be_had(
    database: Database, offers: PostgresOffers, reason: str
) -> None:
    offers.failed("aws", "aws-api", reason, reason, after(60))
    offers.failed("gcp", "gcp-api", "no credentials", "no credentials", after(60))
    quotes = current_quotes(database, [AWS, GCP], after(61))
    # What GCP sells is known from the shipped list: templates of its nodes are not built anew when it answers.
    assert {o.cloud for o in quotes.offers} == {"aws", "gcp"}
    assert {o.available_count for o in quotes.offers} == {0}
    assert {"aws is left out: the session token has expired", "gcp is left out: no credentials"} <= set(quotes.notes)


def test_a_cloud_that_only_failed_to_answer_is_planned_with_what_it_said(
    database: Database, offers: PostgresOffers
) -> None:
    offers.failed("aws", "aws-api", "no answer within 60 s", "", after(60))
    quotes = current_quotes(database, [AWS], NOON + timedelta(hours=7))
    assert {o.available_count for o in quotes.offers} == {None}
    assert quotes.notes[0].endswith("7 h ago; the last attempt failed: no answer within 60 s")


def test_an_offer_whose_price_is_doubted_gets_no_new_node(database: Database, offers: PostgresOffers) -> None:
    doubted = QuarantinedOffer(replace(L4, usd_per_hour=25.0), "more than 3x off")
    market = replace(offers.markets()["aws"], offers=(NEIGHBOUR, ON_DEMAND), quarantined=(doubted,))
    offers.answered(market, partly=False)
    quotes = current_quotes(database, [AWS], NOON)
    assert {o.key: (o.usd_per_hour, o.available_count) for o in quotes.offers} == {
        L4.key: (0.25, 0),
        NEIGHBOUR.key: (0.25, None),
        ON_DEMAND.key: (0.8, None),
    }
    assert [(q.offer.usd_per_hour, q.reason) for q in quotes.quarantined] == [(25.0, "more than 3x off")]


@pytest.mark.usefixtures("offers")
def test_the_next_look_avoids_what_was_refused_and_comes_back_to_it(database: Database) -> None:
    def had(at_s: float) -> int | None:
        found = {o.key: o.available_count for o in current_quotes(database, [AWS], after(at_s)).offers}
        assert found[NEIGHBOUR.key] is None
        return found[L4.key]

    assert had(0) is None
    note_refusal(database, L4, StockOutError("none"), NOON)
    assert had(0.001) == 0
    assert had(59) == 0
    assert had(61) == 2
    note_refusal(database, L4, StockOutError("none"), after(62))
    assert had(181) == 0
    assert "1 offers are avoided for a while" in str(current_quotes(database, [AWS], after(100)).notes)
    assert had(183) == 1
    for second in range(3):
        note_success(database, L4, after(183 + second))
    assert had(187) == 6  # twice the three that it has given since
