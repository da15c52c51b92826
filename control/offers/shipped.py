"""Offers from the dated snapshot of real prices that ships with Medley: no network, no account."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from control.offers.derive import derive
from control.offers.prices import PriceRow, price_rows, regions_by_cloud, zones_by_region
from control.offers.quarantine import quarantine
from control.offers.quotes import OfferError, Quotes
from control.offers.selection import Selection
from control.offers.traffic import traffic_prices
from templates_lib.values.hardware import gpu, instance_type, node_configs, weaker
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.offer import Market, Offer


@dataclass(frozen=True, slots=True)
class ShippedOffers:
    """The part of the snapshot that `selections` name.

    With `by_region` the market is the Coral paper's: a region is one zone that sells each GPU and size once, at its
    cheapest price, and every size is one configuration.
    """

    selections: Sequence[Selection]
    by_region: bool = False

    def fetch(self) -> Quotes:
        """Raises OfferError for a cloud or region without prices, UnknownHardwareError for an unknown GPU."""
        for selection in self.selections:
            _check(selection)
        rows = [row for row in price_rows() if self._reads(row)]
        offers, quarantined = quarantine(offer for row in rows for offer in _offers(row))
        machines = {(o.cloud, o.instance_type) for o in offers}
        configs = node_configs(instance_type(*m) for m in sorted(machines))
        quotes = Quotes(offers, configs, quarantined=quarantined, notes=self._notes(rows))
        if self.by_region:
            quotes = merge_zones(quotes)
        for selection in self.selections:
            if selection.derived and selection.counts is not None:
                gpus = selection.gpus or {c.gpu for c in quotes.configs.values()}
                quotes = derive(quotes, selection.cloud, gpus, selection.counts)
        quotes = self._asked_for(quotes)
        if self.by_region:
            quotes = one_machine_per_size(quotes)
        return replace(quotes, traffic=traffic_prices(quotes.zones))

    def _reads(self, row: PriceRow) -> bool:
        machine = instance_type(row.cloud, row.instance_type)
        return any(s.reads(row.region, machine, row.market) for s in self.selections)

    def _asked_for(self, quotes: Quotes) -> Quotes:
        """Return the quotes without the sizes that were only needed to derive from."""
        kept = [o for o in quotes.offers if any(s.offers(o, quotes.configs[o.node_config]) for s in self.selections)]
        used = {o.node_config for o in kept}
        return replace(quotes, offers=tuple(kept), configs={k: c for k, c in quotes.configs.items() if k in used})

    def _notes(self, rows: Sequence[PriceRow]) -> tuple[str, ...]:
        notes: list[str] = []
        for selection in self.selections:
            mine = [r for r in rows if r.cloud == selection.cloud]
            sold = {instance_type(r.cloud, r.instance_type).gpu for r in mine}
            missing = [name for name in selection.gpus or () if name not in sold]
            if missing:
                where = ", ".join(selection.regions) if selection.regions else "any region"
                notes.append(f"{selection.cloud} has no price for {', '.join(missing)} in {where}")
        dates = [r.date for r in rows]
        if dates:
            notes.append(f"prices are a snapshot: oldest {min(dates)}, newest {max(dates)}")
        spread = {r.region for r in rows if not r.zone and (r.cloud, r.region) in zones_by_region()}
        if spread and not self.by_region:
            notes.append("some machines are priced per region; they are offered in every known zone of their region")
        if any(r.market is Market.SPOT and r.cloud != "aws" for r in rows):
            notes.append("only AWS publishes interruption classes; spot of other clouds counts as its worst class")
        return tuple(notes)


def _check(selection: Selection) -> None:
    known = regions_by_cloud()
    if selection.cloud not in known:
        raise OfferError(f"unknown cloud {selection.cloud!r}; {nearest_name(selection.cloud, known)}")
    for region in selection.regions or ():
        if region not in known[selection.cloud]:
            hint = nearest_name(region, known[selection.cloud])
            raise OfferError(f"no prices for region {region!r} of {selection.cloud}; {hint}")
    for name in selection.gpus or ():
        gpu(name)


def _offers(row: PriceRow) -> Iterator[Offer]:
    """A price of a whole region is offered in each of its zones that are known, for what it says holds in all."""
    zones = (row.zone,) if row.zone else zones_by_region().get((row.cloud, row.region), (row.region,))
    config = instance_type(row.cloud, row.instance_type).config_id
    for zone in zones:
        yield Offer(
            cloud=row.cloud,
            region=row.region,
            zone=zone,
            instance_type=row.instance_type,
            node_config=config,
            market=row.market,
            usd_per_hour=row.usd_per_hour,
            observed_at=row.date,
            interruptions_per_hour=row.interruptions_per_hour,
            source=row.source,
        )


def merge_zones(quotes: Quotes) -> Quotes:
    """List each machine once per region and market, at the price of its cheapest zone; the zone is named like the
    region."""
    cheapest: dict[str, Offer] = {}
    for offer in quotes.offers:
        merged = replace(offer, zone=offer.region)
        known = cheapest.get(merged.key)
        if known is None or offer.usd_per_hour < known.usd_per_hour:
            cheapest[merged.key] = merged
    return replace(quotes, offers=tuple(cheapest[key] for key in sorted(cheapest)))


def one_machine_per_size(quotes: Quotes) -> Quotes:
    """Keep per zone, market, GPU and count only the cheapest machine; and per GPU and count one configuration
    everywhere.

    That configuration carries the least shape of the machines kept, so that clouds whose machines differ in network
    sell the same configuration. Machines that cannot be joined (class n0) stay apart: they would make all others so.
    """
    cheapest: dict[tuple[str, ...], Offer] = {}
    for offer in quotes.offers:
        config = quotes.configs[offer.node_config]
        key = (offer.zone_id, offer.market.value, *_size(config))
        known = cheapest.get(key)
        if known is None or (offer.usd_per_hour, offer.instance_type) < (known.usd_per_hour, known.instance_type):
            cheapest[key] = offer
    least: dict[tuple[str, ...], NodeConfig] = {}
    for offer in cheapest.values():
        config = quotes.configs[offer.node_config]
        least[_size(config)] = weaker(config, least.get(_size(config), config))
    least = {size: replace(c, id=config_id(c.gpu, c.gpu_count, c.network_gbps)) for size, c in sorted(least.items())}
    offers = [
        replace(offer, node_config=least[_size(quotes.configs[offer.node_config])].id)
        for _, offer in sorted(cheapest.items())
    ]
    return replace(quotes, offers=tuple(offers), configs={c.id: c for c in least.values()})


def _size(config: NodeConfig) -> tuple[str, ...]:
    return (config.gpu, str(config.gpu_count), "joins" if config.joins_others else "alone")
