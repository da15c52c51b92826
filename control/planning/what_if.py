"""A snapshot as it might be: other prices, availability or demand, a region that is gone. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from templates_lib.apps.app import App
from templates_lib.apps.graph_app import PublishedApp
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Offer
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool


@dataclass(frozen=True, slots=True)
class OfferChoice:
    """Offers that fit everything that is given; nothing given: all."""

    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    """Inside the cloud."""
    gpu: str | None = None
    market: str | None = None
    offer: str | None = None
    """Key of one."""

    def fits(self, offer: Offer) -> bool:
        gpu, _, _ = offer.node_config.partition(":")
        found = (offer.cloud, offer.region, offer.zone, gpu, offer.market.value, offer.key)
        wanted = (self.cloud, self.region, self.zone, self.gpu, self.market, self.offer)
        return all(want is None or want == have for want, have in zip(wanted, found, strict=True))

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in ("cloud", "region", "zone", "gpu", "market", "offer")}
        return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None) or "all offers"


@dataclass(frozen=True, slots=True)
class PriceChange:
    where: OfferChoice
    factor: float


@dataclass(frozen=True, slots=True)
class AvailabilityChange:
    where: OfferChoice
    nodes: int
    """Number of nodes that could be had beyond those held, of each offer."""


@dataclass(frozen=True, slots=True)
class DemandChange:
    model: str | None = None
    """An app, or what serves one of its request types (`serving_id`); None: all apps."""
    factor: float | None = None
    requests_per_s: float | None = None
    """Exactly one of the two; the rate is the model's own, all its request types together."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes, applied in this order."""

    without: tuple[OfferChoice, ...] = ()
    """Offers that cannot be had, whose held nodes are gone."""
    prices: tuple[PriceChange, ...] = ()
    availability: tuple[AvailabilityChange, ...] = ()
    demand: tuple[DemandChange, ...] = ()


def supposed(snapshot: Snapshot, what_if: WhatIf, apps: Iterable[App | PublishedApp]) -> Snapshot:
    """Return the snapshot of a fleet of `apps` as it might be, without a new version: the caller hashes it. Raises
    ValueError, with the nearest name, for a change that changes nothing because nothing is called so."""
    changed_at = (*(price.where for price in what_if.prices), *(stock.where for stock in what_if.availability))
    for choice in (*what_if.without, *changed_at):
        if not any(choice.fits(offer) for offer in snapshot.offers):
            raise ValueError(f"what-if: no offer of this fleet is {choice}{_hint(choice, snapshot.offers)}")
    offers = [offer for offer in snapshot.offers if not any(choice.fits(offer) for choice in what_if.without)]
    left = {offer.key for offer in offers}
    for price in what_if.prices:
        offers = [replace(o, usd_per_hour=o.usd_per_hour * price.factor) if price.where.fits(o) else o for o in offers]
    for stock in what_if.availability:
        offers = [replace(o, available_count=stock.nodes) if stock.where.fits(o) else o for o in offers]
    changed = replace(
        snapshot,
        offers=tuple(offers),
        pools=tuple(_of(pool, left) for pool in snapshot.pools),
        instances=tuple(i for i in snapshot.instances if all(node.offer in left for node in i.nodes)),
    )
    serving = {app.name: [share.app for share in app.shares] for app in apps}
    served_by = {name: [name] for names in serving.values() for name in names} | serving
    for demand in what_if.demand:
        changed = _with_demand(changed, demand, served_by)
    return changed


def _with_demand(snapshot: Snapshot, change: DemandChange, served_by: Mapping[str, Sequence[str]]) -> Snapshot:
    """`served_by`: what a person may mean → what serves it."""
    if change.model is not None and change.model not in served_by:
        raise ValueError(
            f"what-if: no demand of this fleet is for {change.model!r}; {nearest_name(change.model, served_by)}"
        )
    meant = [d for d in snapshot.demand if change.model is None or d.app in served_by[change.model]]
    factor = change.factor
    if factor is None:
        total = sum(d.requests_per_s for d in meant)
        if not total:
            raise ValueError(
                f"what-if: the demand for {change.model or 'all models'} is 0: it cannot be scaled to a rate"
            )
        factor = (change.requests_per_s or 0.0) / total
    scaled = tuple(replace(d, requests_per_s=d.requests_per_s * factor) if d in meant else d for d in snapshot.demand)
    return replace(snapshot, demand=scaled)


def _of(pool: SupplyPool, offers: set[str]) -> SupplyPool:
    return replace(pool, members={key: weight for key, weight in pool.members.items() if key in offers})


def _hint(choice: OfferChoice, offers: Iterable[Offer]) -> str:
    given = [name for name in ("cloud", "region", "zone", "offer") if getattr(choice, name) is not None]
    if len(given) != 1 or choice.gpu or choice.market:
        return ""
    attribute = "key" if given[0] == "offer" else given[0]
    known = {str(getattr(offer, attribute)) for offer in offers}
    return f"; {nearest_name(getattr(choice, given[0]), known)}"
