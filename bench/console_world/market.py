"""What clouds sold over the last two weeks: shipped prices, which walk, and what clouds answered."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import insert

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.market_tables import offer_price
from control.market.answers import note
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from policies.availability import CallOutcome
from templates_lib.values.offer import Market, Offer, QuarantinedOffer

SPAN = timedelta(days=14)
_STEP = timedelta(hours=6)
_SOLD = {
    "aws": (("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "ap-northeast-2"), ("L4", "L40S", "A10G", "H100")),
    "gcp": (("us-central1", "us-east4", "europe-west4"), ("L4", "A100-80", "H100")),
}
_STOCK_OUT = "InsufficientInstanceCapacity: there is no capacity of the type in this zone now"


def fill_market(database: Database, rng: random.Random, now: datetime) -> None:
    for cloud, (regions, gpus) in _SOLD.items():
        markets = (Market.ON_DEMAND, Market.SPOT)
        quotes = ShippedOffers([Selection(cloud, regions, gpus, None, markets)]).fetch()
        asked_at = now - timedelta(minutes=7)
        offers = tuple(_as_of_now(offer, rng, asked_at) for offer in quotes.offers)
        answered = CloudMarket(
            cloud, f"{cloud} pricing API", asked_at, asked_at, offers=offers, configs=quotes.configs,
            quarantined=_impossible(offers) if cloud == "aws" else (),
            notes=("eu-west-1: 3 spot prices are older than a day",) if cloud == "aws" else (),
        )  # fmt: skip
        stored = PostgresOffers(database)
        _walk(database, offers, rng, now)
        stored.answered(answered, partly=False)
        _answers(database, offers, rng, now)
    refused = "the API key is wrong: renew it in RUNPOD_API_KEY"
    PostgresOffers(database).failed("runpod", "RunPod GraphQL", refused, refused, now - timedelta(minutes=7))


def sold_out(database: Database, offer: Offer, now: datetime) -> None:
    """Five refusals in a row, the last of them minutes ago: it is not asked for a quarter of an hour."""
    for minutes in (40, 34, 27, 18, 2):
        note(database, offer, CallOutcome.STOCK_OUT, _STOCK_OUT, now - timedelta(minutes=minutes))


def rented(database: Database, offers: Mapping[str, int], now: datetime) -> None:
    """Clouds have that many nodes less of these offers, by key, since somebody rents them."""
    stored = PostgresOffers(database)
    for market in stored.markets().values():
        left = tuple(_less(offer, offers.get(offer.key, 0)) for offer in market.offers)
        if left != market.offers:
            stored.answered(replace(market, offers=left, attempted_at=now, succeeded_at=now), partly=True)


def _less(offer: Offer, nodes: int) -> Offer:
    if offer.available_count is None:
        return offer
    return replace(offer, available_count=max(0, offer.available_count - nodes))


def _as_of_now(offer: Offer, rng: random.Random, at: datetime) -> Offer:
    spot = offer.market is Market.SPOT
    # Small machines are short at AWS: whoever rents them has to mix kinds.
    scarce = offer.cloud == "aws" and offer.node_config.startswith(("L4:1/", "A10G:1/", "L40S:1/"))
    stock = rng.choice((0, 12, 40, 160, 400) if spot else (1, 2, 3) if scarce else (30, 120, 300, 900))
    return replace(
        offer,
        usd_per_hour=round(offer.usd_per_hour * (rng.uniform(0.9, 1.15) if spot else 1.0), 4),
        available_count=stock,
        observed_at=(at - timedelta(minutes=rng.randrange(5))).isoformat(),
        interruptions_per_hour=round(rng.uniform(0.0005, 0.01), 5) if spot else 0.0,
    )


def _impossible(offers: tuple[Offer, ...]) -> tuple[QuarantinedOffer, ...]:
    first, second = [offer for offer in offers if offer.market is Market.SPOT][5:25:15]
    return (
        QuarantinedOffer(replace(first, usd_per_hour=0.0), "a price of 0 $/h cannot be right"),
        QuarantinedOffer(replace(second, usd_per_hour=9 * second.usd_per_hour), "9 times its last price"),
    )


def _walk(database: Database, offers: tuple[Offer, ...], rng: random.Random, now: datetime) -> None:
    rows = []
    for offer in offers:
        steps = int(SPAN / _STEP) if offer.market is Market.SPOT else 1
        drift = rng.uniform(0.05, 0.2)
        for step in range(steps):
            wave = math.sin(step / 6 + rng.uniform(-0.3, 0.3)) if steps > 1 else 0.0
            at = now - SPAN + step * _STEP
            usd = round(offer.usd_per_hour * (1 + drift * wave), 4)
            rows.append(
                {"key": offer.key, "usd_per_hour": usd, "source": offer.source, "observed_at": at, "recorded_at": at}
            )
    with database.transaction() as connection:
        connection.execute(insert(offer_price), rows)


def _answers(database: Database, offers: tuple[Offer, ...], rng: random.Random, now: datetime) -> None:
    for offer in rng.sample(offers, 24):
        fails = rng.choice((0.1, 0.4, 0.8))
        for hours in (9, 5, 2, 0.5):
            refused = rng.random() < fails
            outcome = CallOutcome.STOCK_OUT if refused else CallOutcome.GRANTED
            note(database, offer, outcome, _STOCK_OUT if refused else "", now - timedelta(hours=hours))
    scarce = next(offer for offer in offers if "g6e" in offer.key or "a2-" in offer.key or "H100" in offer.node_config)
    note(database, scarce, CallOutcome.STOCK_OUT, _STOCK_OUT, now - timedelta(seconds=20))
