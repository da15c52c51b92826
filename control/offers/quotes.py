"""Quotes of a source of offers, and the port that every source implements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Offer, QuarantinedOffer
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice


class OfferError(ValueError):
    """A request that no source can answer, such as a region that its cloud does not have. Give up and correct it."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """One look at the market. Every offer's `node_config` is a key of `configs`."""

    offers: tuple[Offer, ...]
    configs: Mapping[str, NodeConfig]
    pools: tuple[SupplyPool, ...] = ()
    traffic: tuple[TrafficPrice, ...] = ()
    quarantined: tuple[QuarantinedOffer, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes on these prices for the reader of a plan."""
    already_checked: bool = False
    """Somebody wrote these prices down for this fleet: they are not doubted for being far from another source's."""
    doubtful: frozenset[str] = frozenset()
    """Keys of offers that refused lately: nobody knows whether there is more of them than is held."""
    avoided_until: Mapping[str, datetime] = field(default_factory=dict)
    """Offer key → when it may be asked again, of those that are not to be asked now."""

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(sorted({o.zone_id for o in self.offers}))
