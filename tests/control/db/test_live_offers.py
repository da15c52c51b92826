"""Live offers as the database keeps them: now, before, and how asking went."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from templates_lib.values.hardware import instance_type, node_configs
from templates_lib.values.offer import Offer, QuarantinedOffer
from templates_lib.values.supply import SupplyPool
from tests.control.market.markets import NOON, after, offer

A, B = offer(), offer("use2-az2")
CONFIGS = node_configs([instance_type("aws", "g6.xlarge")])


@pytest.fixture
def offers(database: Database) -> PostgresOffers:
    return PostgresOffers(database)


def said(*listed: Offer, at_s: float = 0, quarantined: tuple[QuarantinedOffer, ...] = ()) -> CloudMarket:
    now = after(at_s)
    return CloudMarket("aws", "aws-api", now, now, "", "", listed, CONFIGS, (), quarantined)


def priced(known: Offer, usd_per_hour: float, at_s: float) -> Offer:
    return replace(known, usd_per_hour=usd_per_hour, observed_at=after(at_s).isoformat())


def test_what_a_cloud_says_comes_back_as_it_was_said(offers: PostgresOffers) -> None:
    pool = SupplyPool("aws/us-east-2/G-VT/spot", 64.0, "vcpus", {A.key: 4.0}, "service-quotas")
    market = replace(
        said(A, B, quarantined=(QuarantinedOffer(priced(A, 9, 0), "too much"),)), pools=(pool,), notes=("note",)
    )
    offers.answered(market, partly=False)
    assert offers.markets() == {"aws": market}
    assert offers.prices("aws") == {A.key: 0.25, B.key: 0.25}


def test_only_changes_join_the_history(offers: PostgresOffers) -> None:
    offers.answered(said(A), partly=False)
    offers.answered(said(A, at_s=60), partly=False)
    offers.answered(said(priced(A, 0.5, 90), at_s=120), partly=False)
    offers.answered(said(priced(A, 0.5, 90), at_s=180), partly=False)
    points = offers.history(A.key, NOON)
    assert [(p.usd_per_hour, p.observed_at, p.recorded_at) for p in points] == [
        (0.25, NOON, NOON),
        (0.5, after(90), after(120)),
    ]
    assert [p.usd_per_hour for p in offers.history(A.key, after(100))] == [0.5]
    assert [p.usd_per_hour for p in offers.history(A.key, after(60))] == [0.25, 0.5]


def test_what_is_not_named_any_more_is_not_sold_unless_the_answer_is_a_part(offers: PostgresOffers) -> None:
    offers.answered(said(A, B), partly=False)
    offers.answered(said(A, at_s=60), partly=True)
    assert set(offers.prices("aws")) == {A.key, B.key}
    offers.answered(said(A, at_s=120), partly=False)
    assert set(offers.prices("aws")) == {A.key}
    assert [p.usd_per_hour for p in offers.history(B.key, NOON)] == [0.25, None]


def test_an_offer_in_quarantine_stays_at_its_last_price(offers: PostgresOffers) -> None:
    offers.answered(said(A), partly=False)
    offers.answered(said(at_s=60, quarantined=(QuarantinedOffer(priced(A, 9, 60), "too much"),)), partly=False)
    assert offers.prices("aws") == {A.key: 0.25}
    assert offers.accept(A.key, after(61)) == priced(A, 9, 60)
    assert offers.prices("aws") == {A.key: 9}
    assert offers.markets()["aws"].quarantined == ()
    assert [p.usd_per_hour for p in offers.history(A.key, NOON)] == [0.25, 9]
    assert offers.accept(A.key, after(62)) is None


def test_a_cloud_that_fails_keeps_what_it_said_and_says_why(offers: PostgresOffers) -> None:
    offers.answered(said(A), partly=False)
    offers.failed("aws", "aws-api", "credentials have expired", "credentials have expired", after(60))
    market = offers.markets()["aws"]
    assert (market.attempted_at, market.succeeded_at) == (after(60), NOON)
    assert market.left_out == market.failure == "credentials have expired"
    assert market.offers == (A,)
    offers.failed("gcp", "gcp-api", "no credentials", "no credentials", after(60))
    never = offers.markets()["gcp"]
    assert (never.succeeded_at, never.offers) == (None, ())
    offers.answered(said(A, at_s=120), partly=False)
    assert offers.markets()["aws"].left_out == ""


def test_a_forgotten_cloud_leaves_its_history(offers: PostgresOffers) -> None:
    offers.answered(said(A), partly=False)
    assert offers.forget("aws")
    assert not offers.forget("aws")
    assert offers.markets() == {}
    assert len(offers.history(A.key, NOON)) == 1


def test_two_rounds_at_once_write_a_change_once(offers: PostgresOffers) -> None:
    offers.answered(said(A, B), partly=False)
    news = said(priced(A, 0.5, 60), B, at_s=60)
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(offers.answered, news, partly=False) for _ in range(8)]:
            done.result()
    assert [p.usd_per_hour for p in offers.history(A.key, NOON)] == [0.25, 0.5]
    assert offers.markets()["aws"].offers == news.offers
