"""The market of a scenario over time: the fleet's own offers, with the logs of prices and of availability."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from control.offers.quotes import Quotes
from control.simulator.market_rows import Place
from control.simulator.offer_log import OfferLog, SharedLog
from control.simulator.step_log import StepLog
from templates_lib.values.offer import Offer
from templates_lib.values.supply import SupplyPool

STATED = "availability"
"""Source of a pool that a fleet's availability file makes (`control.offers.availability`)."""


@dataclass(frozen=True, slots=True, eq=False)
class MarketLog:
    offers: tuple[OfferLog, ...]
    shared: tuple[SharedLog, ...]
    told: frozenset[str]
    """Keys of the offers, and ids of the limits, whose stock the planner is told; of others it learns by asking."""
    notes: tuple[str, ...]

    @property
    def clouds(self) -> tuple[str, ...]:
        return tuple(sorted({log.offer.cloud for log in self.offers}))


def market_log(
    quotes: Quotes, prices: Mapping[Place, StepLog], stock: Mapping[Place, StepLog], *, known: bool
) -> MarketLog:
    """`known`: whether the planner is told what `stock` says. A log that names several offers, as a region does that
    has zones, gives each its price, and all of them together its stock. ValueError for a log that names no offer."""
    for kind, logs in (("price", prices), ("availability", stock)):
        _refuse_strangers(kind, logs, quotes.offers)
    offers: list[OfferLog] = []
    told: set[str] = set()
    for offer in quotes.offers:
        price = _of(offer, prices) or StepLog((0.0,), (offer.usd_per_hour,))
        nodes = _of(offer, stock)
        if (known and nodes is not None) or (nodes is None and offer.available_count is not None):
            told.add(offer.key)
        stated = math.inf if offer.available_count is None else float(offer.available_count)
        offers.append(OfferLog(offer, price, nodes or StepLog((0.0,), (stated,))))
    logged = {offer.key for offer in quotes.offers if _of(offer, stock) is not None}
    shared = [_still(pool) for pool in quotes.pools if not (pool.source == STATED and pool.members.keys() & logged)]
    told |= {log.id for log in shared}
    for place, limit in stock.items():
        members = {offer.key: 1.0 for offer in quotes.offers if _first(offer, stock) == place}
        if len(members) > 1:
            shared.append(SharedLog(f"availability/{place}", members, limit))
            told |= {shared[-1].id} if known else set()
    return MarketLog(tuple(offers), tuple(shared), frozenset(told), _notes(quotes, prices, stock))


def _refuse_strangers(kind: str, logs: Mapping[Place, StepLog], offers: Iterable[Offer]) -> None:
    if logs and not any(place.matches(offer) for place in logs for offer in offers):
        sold = sorted({f"{offer.market.value} {offer.instance_type} in {offer.zone_id}" for offer in offers})
        raise ValueError(
            f"the {kind} log names no offer of the fleet: it begins with {next(iter(logs))}, the fleet may rent "
            f"{', '.join(sold[:3])}{' …' if len(sold) > 3 else ''} (`medley offers list` shows them)"
        )


def _first(offer: Offer, logs: Mapping[Place, StepLog]) -> Place | None:
    """What says most of an offer: its zone before its region, its instance type before its configuration."""
    found = [place for place in logs if place.matches(offer)]
    own = (offer.zone_id, offer.instance_type, offer.node_config)
    return min(found, key=lambda p: (p.zone != own[0], p.machine != own[1], p.machine != own[2]), default=None)


def _of(offer: Offer, logs: Mapping[Place, StepLog]) -> StepLog | None:
    place = _first(offer, logs)
    return None if place is None else logs[place]


def _still(pool: SupplyPool) -> SharedLog:
    return SharedLog(pool.id, dict(pool.members), StepLog((0.0,), (pool.limit,)), pool.unit, pool.source)


def _notes(quotes: Quotes, prices: Mapping[Place, StepLog], stock: Mapping[Place, StepLog]) -> tuple[str, ...]:
    notes = list(quotes.notes)
    for kind, logs in (("prices", prices), ("availability", stock)):
        if logs:
            without = sum(_first(offer, logs) is None for offer in quotes.offers)
            idle = sum(not any(place.matches(offer) for offer in quotes.offers) for place in logs)
            if without:
                notes.append(f"{without} of {len(quotes.offers)} offers are not in the log of {kind}: theirs stay")
            if idle:
                notes.append(f"{idle} machines in the log of {kind} are none that the fleet may rent")
    return tuple(notes)
