"""Where prices, availability and demand come from: ports of the slow loop."""

from datetime import datetime
from typing import Protocol

from control.cloud.errors import CloudError
from control.lifecycle.fleet import FleetRecord
from control.offers.quotes import Quotes
from control.planning.world import World
from templates_lib.values.offer import Offer
from templates_lib.values.work import Demand


class Market(Protocol):
    """Thread-safe."""

    def quotes(self, world: World, now: datetime) -> Quotes:
        """What is sold to a fleet now: what its spec names, at the newest prices, without what is not to be asked."""
        ...

    def refused(self, offer: Offer, error: CloudError, now: datetime) -> None:
        """A cloud did not give a node: to be remembered."""
        ...

    def rented(self, offer: Offer, now: datetime) -> None:
        """A cloud gave one."""
        ...

    def taken(self, offer: Offer, reason: str, now: datetime) -> None:
        """A cloud takes one back."""
        ...


class DemandSource(Protocol):
    """Thread-safe."""

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:
        """To be planned for."""
        ...
