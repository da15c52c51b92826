"""Sources of the offers that a fleet may rent."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from control.fleet_file.document import Position
from control.fleet_file.located import located
from control.offers.availability import read_availability, with_availability
from control.offers.combined import combined
from control.offers.file import FileOffers
from control.offers.pools import QuotaLimit, quota_pools
from control.offers.port import MarketView
from control.offers.quotes import Quotes
from control.offers.reached import reached
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from templates_lib.values.reach import Reach


@dataclass(frozen=True, slots=True, eq=False)
class OfferSources:
    """Offers that a spec names, each with its position where only a market can tell whether it exists."""

    selections: tuple[Selection, ...]
    """Selections of clouds that rent."""
    clouds_at: Position
    by_region: bool
    """The Coral paper's market: a region is one zone that sells each GPU and size once, and no traffic is priced."""
    stated: tuple[Quotes, ...]
    """Quotes that the spec itself states: nodes of this machine, and machines of one's own."""
    files: tuple[tuple[Path, Position], ...]
    """Files of kind Offers; a later one's price replaces an earlier."""
    availability: tuple[Path, Position] | None
    quotas: tuple[tuple[QuotaLimit, Position], ...]
    reach: Reach

    def quotes(self, market: MarketView) -> Quotes:
        """Return what can be rented on `market`. Raises SpecError at the position of what it does not have."""
        papers = ShippedOffers(self.selections, by_region=True).fetch
        sold = located(self.clouds_at, papers if self.by_region else partial(market.offers, self.selections))
        files = [located(at, FileOffers(path).fetch) for path, at in self.files]
        quotes = combined([sold, *self.stated, *files])
        if self.availability is not None:
            path, at = self.availability
            quotes = with_availability(quotes, located(at, read_availability, path))
        pools = {pool.id: pool for pool in quotes.pools}
        for limit, at in self.quotas:
            pools |= {pool.id: pool for pool in located(at, quota_pools, quotes.offers, quotes.configs, [limit])}
        return reached(replace(quotes, pools=tuple(pools.values())), self.reach)
