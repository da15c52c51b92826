"""All offers of the market as the database knows it, read when it has changed, not for every page."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.live_offers import PostgresOffers
from control.db.registered_models import PostgresModels
from control.market.view import StoredMarket
from control.offers.combined import combined
from control.offers.prices import regions_by_cloud
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.planning.world import stated_quotes
from control.reconcile.fleet_world import document_of
from policies.availability import Learned
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Market, Offer
from templates_lib.values.settings import Settings

_FRESH = timedelta(seconds=30)
"""Availability that was learned fades with time, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    offers: tuple[Offer, ...]
    """Offers by key."""
    configs: Mapping[str, NodeConfig]
    learned: Mapping[str, Learned]

    def after(self, key: str, wanted: Callable[[Offer], bool], limit: int) -> list[Offer]:
        found = []
        for offer in self.offers[bisect_right(self.offers, key, key=lambda offer: offer.key) :]:
            if wanted(offer):
                found.append(offer)
                if len(found) == limit:
                    break
        return found


class OfferBook:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = threading.Lock()
        self._listed: Listed | None = None
        self._mark: object = None
        self._read_at: datetime | None = None

    def read(self, now: datetime) -> Listed:
        """Live offers of clouds that were asked, else the dated ones that ship; and what fleets' own specs state.

        Raises OfferError.
        """
        mark = (PostgresOffers(self._database).mark(), PostgresFleets(self._database).mark())
        with self._turn:
            old = self._read_at is None or not self._read_at <= now < self._read_at + _FRESH
            if self._listed is None or old or mark != self._mark:
                self._listed, self._mark, self._read_at = self._look(now), mark, now
            return self._listed

    def _look(self, now: datetime) -> Listed:
        stored = StoredMarket.read(self._database, now)
        markets = (Market.ON_DEMAND, Market.SPOT)
        known = sorted({*regions_by_cloud(), *stored.clouds})
        sold = stored.offers([Selection(cloud, None, None, None, markets) for cloud in known])
        quotes = combined([sold, *self._stated()])
        judged = stored.judged(quotes, Settings().guardrails.max_unproven_nodes)
        offers = sorted(judged.offers, key=lambda offer: offer.key)
        return Listed(tuple(offers), judged.configs, stored.memory)

    def _stated(self) -> Iterator[Quotes]:
        """Nodes of this machine and machines of one's own, which no cloud sells: of every fleet on record."""
        own = PostgresModels(self._database).own()
        for record in PostgresFleets(self._database).all():
            try:
                yield from stated_quotes(document_of(record.spec, record.folder, record.name), own)
            except ValueError:  # a spec of an earlier release: the fleet's own pages say what is wrong with it
                continue
