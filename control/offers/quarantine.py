"""Keeping impossible prices out of planning, without losing them."""

import math
from collections.abc import Iterable, Mapping

from templates_lib.values.offer import Market, Offer, QuarantinedOffer

MAX_CHANGE = 3.0
"""A price that is more than this many times above or below the last known one is a mistake until a person agrees
(docs/offers.md)."""


def quarantine(
    offers: Iterable[Offer], last_usd_per_hour: Mapping[str, float] | None = None
) -> tuple[tuple[Offer, ...], tuple[QuarantinedOffer, ...]]:
    """Offers that may be planned with, and those that may not, each with the reason.

    `last_usd_per_hour` maps an offer's key to the price it had before; an offer without one is judged alone. Only owned
    machines may cost nothing.
    """
    last = last_usd_per_hour or {}
    good: list[Offer] = []
    bad: list[QuarantinedOffer] = []
    for offer in offers:
        reason = _doubt(offer, last.get(offer.key))
        if reason:
            bad.append(QuarantinedOffer(offer, reason))
        else:
            good.append(offer)
    return tuple(good), tuple(bad)


def _doubt(offer: Offer, last: float | None) -> str:
    price = offer.usd_per_hour
    if not math.isfinite(price):
        return f"price {price} is not a number"
    if price < 0:
        return f"price ${price:g}/h is negative"
    if price == 0:
        return "" if offer.market is Market.OWNED else "price $0/h: unknown, not free"
    if last is not None and last > 0 and not last / MAX_CHANGE <= price <= last * MAX_CHANGE:
        return f"price ${price:g}/h is more than {MAX_CHANGE:g}x off the last known ${last:g}/h"
    return ""
