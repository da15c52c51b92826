"""The market of a scenario as the planner sees it, and remembers what it answered."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from math import inf

from control.db.database import Database
from control.market.live_market import LiveMarket
from control.market.view import StoredMarket
from control.offers.quotes import Quotes
from control.planning.world import World
from control.simulator.log_cloud import LogCloud
from control.simulator.market_log import MarketLog
from templates_lib.values.clouds import cloud_kind
from templates_lib.values.offer import Offer
from templates_lib.values.supply import SupplyPool


class SimulatedMarket(LiveMarket):
    """Prices and stock by the logs, of what the planner is told; refusals are remembered in the database as ever."""

    def __init__(self, database: Database, log: MarketLog, clouds: Mapping[str, LogCloud], start: datetime) -> None:
        super().__init__(database)
        self._memory, self._log, self._clouds, self._start = database, log, clouds, start

    def quotes(self, world: World, now: datetime) -> Quotes:
        offers = tuple(self._stocked(offer) for _, cloud in sorted(self._clouds.items()) for offer in cloud.offers(now))
        at_s = (now - self._start).total_seconds()
        pools = tuple(
            SupplyPool(log.id, log.limit.at(at_s), log.unit, dict(log.members), log.source)
            for log in self._log.shared
            if log.id in self._log.told
        )
        quotes = replace(world.quotes, offers=offers, pools=pools)
        return StoredMarket.read(self._memory, now).judged(quotes, world.fleet.settings.guardrails.max_unproven_nodes)

    def _stocked(self, offer: Offer) -> Offer:
        """The offer with what can be had beside what is held, if the planner is told."""
        cloud = self._clouds[offer.cloud]
        own = cloud.most(offer.key) - cloud.held(offer.key)
        if offer.key not in self._log.told or own == inf:
            return replace(offer, available_count=None)
        held = cloud.held(offer.key) if cloud_kind(offer.cloud).is_stock else 0
        return replace(offer, available_count=max(int(own), 0) + held)
