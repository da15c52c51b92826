"""Tags that say what a node costs and since when, so that its bill is known though no row explains it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

PRICE_TAG = "medley-micro-usd-per-hour"
"""Tag with what the node costs, offer and disk. Whole numbers: a tag's value may hold no dot."""
ASKED_TAG = "medley-asked-at"
"""Seconds since 1970, by the control plane's clock: no cloud bills before it was asked."""


def bill_tags(usd_per_hour: float, now: datetime) -> dict[str, str]:
    return {PRICE_TAG: str(round(usd_per_hour * 1_000_000)), ASKED_TAG: str(int(now.timestamp()))}


def bill_of(tags: Mapping[str, str]) -> tuple[datetime | None, Decimal | None]:
    """Read when the node was asked for, and its $/h; None where the cloud keeps no such tags, or somebody has changed
    them."""
    asked, price = tags.get(ASKED_TAG, ""), tags.get(PRICE_TAG, "")
    # 11 digits of seconds end in the year 5138; longer numbers are nobody's time or price.
    asked_at = datetime.fromtimestamp(int(asked), UTC) if asked.isdecimal() and len(asked) <= 11 else None
    usd_per_hour = Decimal(int(price)) / 1_000_000 if price.isdecimal() and len(price) <= 12 else None
    return asked_at, usd_per_hour
