"""Numbers of nodes that can be had, where a person's file or a recorded log states them."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from control.fleet_file.document import read_text
from control.fleet_file.problem import SpecError, SpecProblem
from control.offers.quotes import Quotes
from templates_lib.values.hardware import UnknownHardwareError, node_config_from_id
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

COLUMNS = ("zone", "config", "market", "available")


@dataclass(frozen=True, slots=True)
class Availability:
    """`nodes` nodes of a configuration in a zone and market, whatever machine they are."""

    zone: str
    """Zone id such as `aws/use2-az1`; a region (`aws/us-east-2`) stands for all its zones together."""
    config: str
    """`L40S:2/n25`, or `L40S:2` for every network class."""
    market: Market
    nodes: int

    def matches(self, offer: Offer) -> bool:
        config = offer.node_config
        return (
            self.zone in (offer.zone_id, f"{offer.cloud}/{offer.region}")
            and self.config in (config, config.partition("/")[0])
            and self.market is offer.market
        )


def with_availability(quotes: Quotes, known: Iterable[Availability]) -> Quotes:
    """`quotes` with what is known about supply.

    One offer that matches gets the count. Several share it: each is bounded by it, and a supply pool holds their sum.
    Offers that nothing matches keep their own count. What matches no offer is counted in a note.
    """
    offers = list(quotes.offers)
    pools: list[SupplyPool] = []
    idle = 0
    for fact in known:
        matching = [i for i, offer in enumerate(offers) if fact.matches(offer)]
        idle += not matching
        for i in matching:
            offers[i] = replace(offers[i], available_count=fact.nodes)
        if len(matching) > 1:
            members = {offers[i].key: 1.0 for i in matching}
            name = f"availability/{fact.zone}/{fact.config}/{fact.market.value}"
            pools.append(SupplyPool(name, float(fact.nodes), "nodes", members, "availability"))
    notes = (f"{idle} lines of availability match no offer here",) if idle else ()
    return replace(quotes, offers=tuple(offers), pools=(*quotes.pools, *pools), notes=(*quotes.notes, *notes))


def read_availability(path: Path) -> tuple[Availability, ...]:
    """A CSV file with the header `zone,config,market,available` (lines that start with # are comments).

    Raises SpecError with every wrong line at once.
    """
    lines = [(n, line) for n, line in enumerate(read_text(path).splitlines(), 1) if line.strip() and line[0] != "#"]
    if not lines or tuple(c.strip() for c in lines[0][1].split(",")) != COLUMNS:
        line = lines[0][0] if lines else 0
        raise SpecError([SpecProblem(str(path), line, f"the header must be {','.join(COLUMNS)}")])
    known: dict[tuple[str, str, Market], Availability] = {}
    problems: list[SpecProblem] = []
    for (number, _), cells in zip(lines[1:], csv.reader(text for _, text in lines[1:]), strict=True):
        try:
            fact = availability(*(c.strip() for c in cells)) if len(cells) == len(COLUMNS) else None
        except ValueError as error:
            problems.append(SpecProblem(str(path), number, str(error)))
            continue
        if fact is None:
            problems.append(SpecProblem(str(path), number, f"has {len(cells)} cells, must have {len(COLUMNS)}"))
        elif (fact.zone, fact.config, fact.market) in known:
            problems.append(SpecProblem(str(path), number, f"{fact.config} in {fact.zone} occurs twice; keep one"))
        else:
            known[fact.zone, fact.config, fact.market] = fact
    if problems:
        raise SpecError(problems)
    return tuple(known.values())


def availability(zone: str, config: str, market: str, nodes: str) -> Availability:
    """Parse availability from the fields of a file; ValueError says what is wrong with them."""
    try:
        node_config_from_id(config if "/" in config else f"{config}/n0")
    except UnknownHardwareError as error:
        raise ValueError(str(error)) from None
    if "/" not in zone:
        raise ValueError(f"zone {zone!r} must name its cloud, such as aws/{zone}")
    markets = [m.value for m in Market]
    if market not in markets:
        raise ValueError(f"unknown market {market!r}; {nearest_name(market, markets)}")
    if not nodes.isdigit():
        raise ValueError(f"available must be a whole number of nodes, 0 or more, is {nodes!r}")
    return Availability(zone, config, Market(market), int(nodes))
