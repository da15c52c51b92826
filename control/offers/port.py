"""The port through which planning takes its offers."""

from collections.abc import Sequence
from typing import Protocol

from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers


class MarketView(Protocol):
    """The market at one moment."""

    def offers(self, selections: Sequence[Selection]) -> Quotes:
        """Return what clouds sell of those parts. Raises OfferError, UnknownHardwareError."""
        ...

    def judged(self, quotes: Quotes, max_unproven_nodes: int) -> Quotes:
        """All offers of a fleet, whatever their source, with what clouds answered lately."""
        ...


class ShippedMarket:
    """The dated snapshot that comes with Medley; no cloud was ever asked."""

    def offers(self, selections: Sequence[Selection]) -> Quotes:
        return ShippedOffers(selections).fetch()

    def judged(self, quotes: Quotes, max_unproven_nodes: int) -> Quotes:  # noqa: ARG002 - as the port has it
        return quotes


SHIPPED_MARKET = ShippedMarket()
