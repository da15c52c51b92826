"""The market as the database knows it at one moment: live offers where there are any, the shipped ones elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.market_memory import PostgresMarketMemory
from control.offers.combined import combined
from control.offers.derive import derive
from control.offers.learned import with_learned
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from control.offers.traffic import traffic_prices
from policies.availability import Learned
from templates_lib.values.hardware import gpu, node_config_from_id
from templates_lib.values.offer import QuarantinedOffer

STALE = timedelta(hours=6)
"""Live prices older than this are planned with, and said to be old."""


@dataclass(frozen=True, slots=True)
class StoredMarket:
    """The stored market at one moment, a `control.offers.port.MarketView`. Made by `read`: two queries, whatever is
    asked of it then."""

    now: datetime
    clouds: Mapping[str, CloudMarket]
    memory: Mapping[str, Learned]

    @classmethod
    def read(cls, database: Database, now: datetime) -> "StoredMarket":
        """Raises DatabaseUnavailableError."""
        return cls(now, PostgresOffers(database).markets(), PostgresMarketMemory(database).read())

    def offers(self, selections: Sequence[Selection]) -> Quotes:
        """Live offers of clouds that have answered; of all others the shipped ones. A cloud that is left out has none
        to be had: nodes that are held there stay priced, and the library of templates stays as it is. Raises
        OfferError, UnknownHardwareError."""
        clouds = {name: market for name, market in self.clouds.items() if market.succeeded_at is not None}
        shipped = [selection for selection in selections if selection.cloud not in clouds]
        live = [self._live(clouds[s.cloud], s) for s in selections if s.cloud in clouds]
        return combined([self._shipped(shipped), *live])

    def judged(self, quotes: Quotes, max_unproven_nodes: int) -> Quotes:
        return with_learned(quotes, self.memory, self.now, max_unproven_nodes)

    def _shipped(self, selections: Sequence[Selection]) -> Quotes:
        quotes = ShippedOffers(selections).fetch()
        silent = [self.clouds[name] for name in sorted({s.cloud for s in selections} & self.clouds.keys())]
        left_out = {market.cloud for market in silent if market.left_out}
        notes = [self._about(m) if m.left_out else f"{m.cloud} has never answered: {m.failure}" for m in silent]
        return replace(
            quotes,
            offers=tuple(replace(o, available_count=0) if o.cloud in left_out else o for o in quotes.offers),
            notes=(*quotes.notes, *notes),
        )

    def _live(self, market: CloudMarket, selection: Selection) -> Quotes:
        for name in selection.gpus or ():
            gpu(name)
        wide = replace(selection, counts=None) if selection.derived else selection
        read = tuple(o for o in market.offers if wide.offers(o, market.configs[o.node_config]))
        quotes = Quotes(read, {o.node_config: market.configs[o.node_config] for o in read})
        if selection.derived and selection.counts is not None:
            gpus = selection.gpus or {c.gpu for c in quotes.configs.values()}
            quotes = derive(quotes, selection.cloud, gpus, selection.counts)
        doubted = {each.offer.key: each.reason for each in market.quarantined}
        offers = tuple(
            replace(offer, available_count=0) if market.left_out or offer.key in doubted else offer
            for offer in quotes.offers
            if selection.offers(offer, quotes.configs[offer.node_config])
        )
        keys = {offer.key for offer in offers}
        members = [{key: weight for key, weight in p.members.items() if key in keys} for p in market.pools]
        aside = [e for e in market.quarantined if selection.offers(e.offer, node_config_from_id(e.offer.node_config))]
        return Quotes(
            offers,
            {o.node_config: quotes.configs[o.node_config] for o in offers},
            tuple(replace(p, members=own) for p, own in zip(market.pools, members, strict=True) if own),
            traffic_prices({offer.zone_id for offer in offers}),
            tuple(QuarantinedOffer(each.offer, each.reason) for each in aside),
            (self._about(market), *market.notes),
            already_checked=True,  # doubted once, when they were stored
        )

    def _about(self, market: CloudMarket) -> str:
        if market.left_out:
            return f"{market.cloud} is left out: {market.left_out}"
        assert market.succeeded_at is not None  # noqa: S101 - or it would be the shipped market
        age = self.now - market.succeeded_at
        at = market.succeeded_at.isoformat(timespec="seconds")
        why = f"; the last attempt failed: {market.failure}" if market.failure else ""
        old = f", {age.total_seconds() / 3600:.0f} h ago" if age > STALE else ""
        return f"prices of {market.cloud} are live ({market.source}), read at {at}{old}{why}"
