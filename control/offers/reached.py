"""Quotes as far as their zones reach each other, and gateways reach them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from control.offers.quotes import Quotes
from control.offers.traffic import traffic_prices
from templates_lib.values.reach import Reach, networks_of
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.traffic import TrafficPrice

_NAMED = 4
"""Pairs of networks that a note names."""


def reached(quotes: Quotes, reach: Reach) -> Quotes:
    """Return the quotes without the prices of crossings that have no way. Where it is known which network gateways are
    in, no more nodes are offered where they do not reach; those held stay priced."""
    networks = networks_of(quotes.offers)
    known = {*networks}
    crossings = tuple(
        price
        for price in quotes.traffic
        if not {price.source, price.target} <= known or reach.joins(networks[price.source], networks[price.target])
    )
    away = {zone for zone, network in networks.items() if reach.gateways and not reach.serves(network)}
    offers = tuple(replace(each, available_count=0) if each.zone_id in away else each for each in quotes.offers)
    notes = (*quotes.notes, *_notes(quotes, reach, {networks[zone] for zone in away}))
    return replace(quotes, offers=offers, traffic=crossings, notes=notes)


def no_way(snapshot: Snapshot) -> tuple[TrafficPrice, ...]:
    """Return the prices of crossings between zones of a snapshot that were left out, since nothing joins their
    networks: what joining them would allow. None where a market is one in which nothing is priced (`by_region`)."""
    if not any(each.region != each.zone_id.partition("/")[2] for each in snapshot.offers):
        return ()
    networks, held = networks_of(snapshot.offers), {(each.source, each.target) for each in snapshot.traffic}
    all_joined = Reach((frozenset(networks.values()),))
    return tuple(
        price
        for price in traffic_prices(networks)
        if (price.source, price.target) not in held and all_joined.joins(networks[price.source], networks[price.target])
    )


def _notes(quotes: Quotes, reach: Reach, away: set[str]) -> Iterator[str]:
    if away:
        yield (
            f"gateways in {reach.gateways} do not reach {', '.join(sorted(away))}: nothing is rented there "
            "(`network.peered` where they do)"
        )
    if not quotes.traffic:  # nothing crosses zones anyway
        return
    networks = sorted(set(networks_of(quotes.offers).values()) - away)
    apart = [f"{a} and {b}" for a, b in combinations(networks, 2) if not reach.joins(a, b)]
    if apart:
        more = f" and {len(apart) - _NAMED} more pairs" if len(apart) > _NAMED else ""
        yield (
            f"no KV cache goes between networks that do not reach each other: {'; '.join(apart[:_NAMED])}{more} "
            "(`network.peered` where they do)"
        )
