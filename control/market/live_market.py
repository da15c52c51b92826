"""The market that fleets are planned on while a control plane runs: live offers, and what clouds answered."""

from datetime import datetime

from control.cloud.errors import CloudError
from control.db.database import Database
from control.market.answers import note_refusal, note_success, note_taken
from control.market.view import StoredMarket
from control.offers.quotes import Quotes
from control.planning.world import World
from templates_lib.values.offer import Offer


class LiveMarket:
    """`control.reconcile.market.MarketSource` on a database. Every method also raises DatabaseUnavailableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def quotes(self, world: World, now: datetime) -> Quotes:
        """Return what is sold to a fleet now, at the newest prices, without offers in a cool-down. Raises SpecError."""
        return world.quotes_on(StoredMarket.read(self._database, now))

    def refused(self, offer: Offer, error: CloudError, now: datetime) -> None:
        note_refusal(self._database, offer, error, now)

    def rented(self, offer: Offer, now: datetime) -> None:
        note_success(self._database, offer, now)

    def taken(self, offer: Offer, reason: str, now: datetime) -> None:
        """A spot node was taken back, or will be."""
        note_taken(self._database, offer, reason, now)
