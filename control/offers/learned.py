"""Quotes with what clouds' answers have taught."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from control.offers.pools import quota_family
from control.offers.quotes import Quotes
from policies.availability import Learned, is_excluded, nodes_to_count_on
from templates_lib.values.offer import Offer


def quota_subject(offer: Offer) -> str:
    """Name what a quota that is reached is remembered for: all offers that count against it, as the pool of it is
    named."""
    family = quota_family(offer.cloud, offer.node_config.partition(":")[0], offer.instance_type)
    return f"{offer.cloud}/{offer.region}/{family}/{offer.market.value}"


def subjects(offer: Offer) -> tuple[str, str, str]:
    """All that an offer is remembered by: itself, its quota family and its cloud."""
    return (offer.key, quota_subject(offer), offer.cloud)


def why_excluded(offer: Offer, memory: Mapping[str, Learned], now: datetime) -> str:
    """Return why an offer is not asked for now; empty when it may be."""
    for subject, known, until in _exclusions(offer, memory, now):
        return f"{known.outcome.value} of {subject} until {until.isoformat(timespec='seconds')}: {known.reason}"
    return ""


def with_learned(quotes: Quotes, memory: Mapping[str, Learned], now: datetime, max_unproven_nodes: int) -> Quotes:
    """`quotes` with no more nodes available of each offer than its answers allow; nodes that are held stay held.

    What is being avoided is counted in a note.
    """
    offers: list[Offer] = []
    avoided: dict[str, datetime] = {}
    doubtful: set[str] = set()
    for offer in quotes.offers:
        bounds = [
            nodes
            for subject in subjects(offer)
            if (known := memory.get(subject)) is not None
            and (nodes := nodes_to_count_on(known, now, max_unproven_nodes)) is not None
        ]
        if not bounds:
            offers.append(offer)
            continue
        doubtful.add(offer.key)
        if min(bounds) == 0:
            avoided[offer.key] = max(until for _, _, until in _exclusions(offer, memory, now))
        stated = bounds if offer.available_count is None else [*bounds, offer.available_count]
        offers.append(replace(offer, available_count=min(stated)))
    notes = (f"{len(avoided)} offers are avoided for a while because they were refused lately",) if avoided else ()
    return replace(
        quotes,
        offers=tuple(offers),
        notes=(*quotes.notes, *notes),
        doubtful=frozenset(doubtful),
        avoided_until=avoided,
    )


def _exclusions(offer: Offer, memory: Mapping[str, Learned], now: datetime) -> Iterator[tuple[str, Learned, datetime]]:
    """Yield each subject that keeps an offer from being asked, what is known of it, and until when it does."""
    for subject in subjects(offer):
        known = memory.get(subject)
        if known is not None and is_excluded(known, now) and known.excluded_until is not None:
            yield subject, known, known.excluded_until
