"""Ask clouds for what they sell now, doubt what cannot be, and store the rest."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.market_memory import PostgresMarketMemory
from control.offers.live.fetch import Fetched, fetch_all
from control.offers.live.source import LiveAnswer, LiveSource, NoAccessError, SourceError
from control.offers.quarantine import quarantine
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from control.printable import printable
from templates_lib.values.offer import Market, QuarantinedOffer

TIME_OUT_S = 180.0
"""Seconds for all clouds together: the slowest pages through some tens of thousands of prices."""
KEPT = timedelta(days=30)
"""Time for which calls for nodes are kept, which are shown by the minute."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Result of asking one cloud."""

    cloud: str
    source: str
    offers: int
    quarantined: tuple[QuarantinedOffer, ...]
    notes: tuple[str, ...]
    failure: str
    """Empty: it answered."""
    is_left_out: bool
    """True while its offers are not planned with, until it answers."""


def refresh(database: Database, sources: Iterable[LiveSource], now: datetime) -> tuple[Refreshed, ...]:
    """One round over `sources`; one that fails changes nothing but what is said of it. Raises DatabaseUnavailableError.

    No transaction is open while clouds are asked. Rounds may overlap: of each cloud the last that is stored counts.
    """
    fetched = fetch_all(sources, now, TIME_OUT_S)
    offers = PostgresOffers(database)
    done = tuple(_stored(offers, each, now) for each in fetched)
    PostgresMarketMemory(database).forget_calls(now - KEPT)
    return done


def _stored(offers: PostgresOffers, fetched: Fetched, now: datetime) -> Refreshed:
    cloud, source, result = fetched.cloud, fetched.source, fetched.result
    if isinstance(result, SourceError):
        return _failed(offers, fetched, str(result), now, left_out=isinstance(result, NoAccessError))
    last = offers.prices(cloud)
    if last and not result.offers and not result.partly:
        return _failed(offers, fetched, "it says that it sells nothing, which is not believed", now, left_out=False)
    good, bad = quarantine(result.offers, last or _shipped_prices(cloud))
    aside = tuple(QuarantinedOffer(each.offer, each.reason) for each in bad)
    market = CloudMarket(cloud, source, now, now, "", "", good, result.configs, result.pools, aside, _notes(result))
    offers.answered(market, partly=result.partly)
    return Refreshed(cloud, source, len(good), aside, result.notes, "", is_left_out=False)


def _failed(offers: PostgresOffers, fetched: Fetched, why: str, now: datetime, *, left_out: bool) -> Refreshed:
    said = printable(why)
    offers.failed(fetched.cloud, fetched.source, said, said if left_out else None, now)
    return Refreshed(fetched.cloud, fetched.source, 0, (), (), said, left_out)


def _notes(answer: LiveAnswer) -> tuple[str, ...]:
    return tuple(map(printable, answer.notes))


def _shipped_prices(cloud: str) -> dict[str, float]:
    """Return prices to compare a first answer with. Spot prices move too far in the age of the snapshot."""
    shipped = ShippedOffers([Selection(cloud, markets=(Market.ON_DEMAND,))]).fetch()
    return {offer.key: offer.usd_per_hour for offer in shipped.offers}
