"""Offers and answers for tests of the market."""

from datetime import UTC, datetime, timedelta

from templates_lib.values.offer import Market, Offer

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def offer(
    zone: str = "use2-az1",
    machine: str = "g6.xlarge",
    market: Market = Market.SPOT,
    usd_per_hour: float = 0.25,
    at: str = NOON.isoformat(),
) -> Offer:
    return Offer("aws", "us-east-2", zone, machine, "L4:1/n10", market, usd_per_hour, observed_at=at, source="aws-api")
