"""Ports of the slow loop to prices, availability and demand."""

from datetime import datetime
from typing import Protocol

from control.cloud.errors import CloudError
from control.lifecycle.fleet import FleetRecord
from control.offers.quotes import Quotes
from control.planning.world import World
from templates_lib.values.offer import Offer
from templates_lib.values.work import Demand


class MarketSource(Protocol):
    """Source of prices and supply, and of what is learned about them. Thread-safe."""

    def quotes(self, world: World, now: datetime) -> Quotes:
        """Return what is sold to a fleet now: what its spec names, at the newest prices, without offers in a
        cool-down."""
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
    """Source of a fleet's demand. Thread-safe."""

    def demand(self, record: FleetRecord, world: World, now: datetime) -> tuple[Demand, ...]:
        """Return the demand to plan for."""
        ...
