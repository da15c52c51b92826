"""The market of a recorded span: what was sold, at which prices, and how much of it could be had."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from control.db.database import Database
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.past import PastNode, PostgresPast
from control.db.plans import PostgresPlans
from control.lifecycle.intent import IntentState
from control.market.view import StoredMarket
from control.offers.quotes import Quotes
from control.planning.world import World
from control.simulator.log_cloud import LogCloud
from control.simulator.market_log import MarketLog, market_log
from control.simulator.offer_log import OfferLog, SharedLog
from control.simulator.replay.shortage import Shortage, as_asked, nodes_log, shortages, taken
from control.simulator.replay.span import Span
from control.simulator.simulated_market import SimulatedMarket
from control.simulator.step_log import StepLog, step_log
from policies.availability import COOL_DOWNS, CallOutcome
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer
from templates_lib.values.snapshot import Snapshot

_GIVEN_BACK = ("terminated", IntentState.REFUSED.value, IntentState.ABANDONED.value)
"""What is said of nodes that we ended, or that never were; all others were lost."""
Prices = Mapping[str, Sequence[tuple[datetime, float | None]]]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedMarket:
    quotes: Quotes
    """All that was sold at some time of the span, and the fleet may rent."""
    log: MarketLog
    sold: Mapping[str, StepLog]
    """Offer key → 1 while it was sold, else 0; those that always were are not there."""
    notes: tuple[str, ...]
    """What was assumed."""


def recorded_market(database: Database, span: Span, world: World) -> RecordedMarket:
    """As `world`, which may be another one than was recorded, would have seen it. Raises DatabaseUnavailableError, and
    SpecError where the world's spec names what no market has."""
    prices = PostgresPast(database).prices(span.begin, span.until)
    snapshots = _snapshots(PostgresPlans(database), span)
    quotes = world.quotes_on(StoredMarket(span.since, _clouds(database, prices, snapshots), {}))
    seen = _seen(snapshots)
    known = {offer.key: prices.get(offer.key) or seen.get(offer.key) for offer in quotes.offers}
    plain = market_log(quotes, {}, {}, known=False)
    offers = {offer.key: offer for offer in quotes.offers}
    short: defaultdict[str, list[Shortage]] = defaultdict(list)
    for each in (*shortages(as_asked(span.calls, span.nodes), offers), *_losses(span, offers)):
        short[each.subject].append(each)

    def logged(log: OfferLog) -> OfferLog:
        key = log.offer.key
        nodes = nodes_log(log.offer, short, lambda at: _held(span, key, at), span.seconds, log.nodes)
        points = [(span.seconds(at), usd) for at, usd in known[key] or () if usd is not None]
        return OfferLog(log.offer, step_log(points) if points else log.usd_per_hour, nodes)

    log = replace(
        plain,
        offers=tuple(map(logged, plain.offers)),
        shared=tuple(_beside_others(shared, span) for shared in plain.shared),
    )
    sold = {key: step_log((span.seconds(at), float(usd is not None)) for at, usd in points)
            for key, points in known.items() if points and any(usd is None for _, usd in points)}  # fmt: skip
    return RecordedMarket(quotes, log, sold, _notes(quotes, known, short))


class ReplayedMarket(SimulatedMarket):
    """The recorded market as the planner of a replay sees it: what was not sold then is not there."""

    def __init__(
        self, database: Database, recorded: RecordedMarket, clouds: Mapping[str, LogCloud], start: datetime
    ) -> None:
        super().__init__(database, recorded.log, clouds, start)
        self._sold, self._begin = recorded.sold, start

    def quotes(self, world: World, now: datetime) -> Quotes:
        found, at_s = super().quotes(world, now), (now - self._begin).total_seconds()
        always = StepLog((0.0,), (1.0,))
        return replace(found, offers=tuple(o for o in found.offers if self._sold.get(o.key, always).at(at_s)))


def _snapshots(plans: PostgresPlans, span: Span) -> list[tuple[datetime, Snapshot]]:
    """Snapshots of plans that the loop held the fleet to: what it saw itself, not what somebody had it suppose."""
    accepted = [(event.at, event.subject) for event in span.events if event.kind == "plan.accepted"]
    found = []
    for at, plan in ([span.held] if span.held else []) + accepted:
        try:
            found.append((at, plans.snapshot(plans.load(plan).snapshot_version)))
        except LookupError:
            continue  # it was thrown away
    return found


def _clouds(
    database: Database, prices: Prices, snapshots: Iterable[tuple[datetime, Snapshot]]
) -> dict[str, CloudMarket]:
    """Clouds that had answered by the end of the span, with all that they sold in it. What they refused or left out
    since is no matter: it was not so then."""
    answered = {key.partition("/")[0] for key in prices}
    offers: dict[str, dict[str, Offer]] = defaultdict(dict)
    markets = PostgresOffers(database).markets()
    for offer in (offer for _, snapshot in snapshots for offer in snapshot.offers):
        if not offer.derived:
            offers[offer.cloud][offer.key] = replace(offer, available_count=None)
    return {
        cloud: replace(
            market,
            left_out="",
            failure="",
            offers=tuple((offers[cloud] | {offer.key: offer for offer in market.offers}).values()),
            configs={
                **{offer.node_config: node_config_from_id(offer.node_config) for offer in offers[cloud].values()},
                **market.configs,
            },
            quarantined=(),
            notes=(),
        )
        for cloud, market in markets.items()
        if cloud in answered and market.succeeded_at is not None
    }


def _seen(snapshots: Iterable[tuple[datetime, Snapshot]]) -> dict[str, list[tuple[datetime, float | None]]]:
    """Offer key → what it cost in each, for offers that no cloud is asked about."""
    found: dict[str, list[tuple[datetime, float | None]]] = defaultdict(list)
    for at, snapshot in snapshots:
        for offer in snapshot.offers:
            found[offer.key].append((at, offer.usd_per_hour))
    return found


def _losses(span: Span, offers: Mapping[str, Offer]) -> Iterable[Shortage]:
    """Spot nodes that were gone without our doing. Their market was short then."""
    lasts = timedelta(seconds=COOL_DOWNS[CallOutcome.TAKEN].first_s)
    for node in span.nodes:
        offer = offers.get(node.offer)
        if offer is not None and offer.market is Market.SPOT and node.gone_at is not None and was_lost(node):
            yield taken(offer, node.gone_at, lasts)


def was_lost(node: PastNode) -> bool:
    """Whether it went without our doing."""
    return node.gone_at is not None and not node.gone_because.startswith(_GIVEN_BACK)


def _held(span: Span, offer: str, at: datetime) -> int:
    """Nodes of the fleet, just after."""
    return sum(node.fleet == span.fleet and node.offer == offer and _is_there(node, at) for node in span.nodes)


def _is_there(node: PastNode, at: datetime) -> bool:
    """Held, or asked for and had later: a cloud that gives a node has set it aside when it was asked."""
    return node.created_at is not None and node.requested_at <= at and (node.gone_at is None or node.gone_at > at)


def _beside_others(log: SharedLog, span: Span) -> SharedLog:
    """What other fleets held of a limit is not there for this one."""
    others = [node for node in span.nodes if node.fleet != span.fleet and node.offer in log.members]
    if not others:
        return log
    times = sorted({t for node in others for t in (node.requested_at, node.gone_at) if t is not None})
    steps = [(-inf, span.begin - timedelta(seconds=1)), *((span.seconds(at), at) for at in times)]
    return replace(
        log,
        limit=step_log(
            (max(time, span.seconds(span.begin) - 1.0),
             max(0.0, log.limit.at(time) - sum(log.members[n.offer] for n in others if _is_there(n, at))))
            for time, at in steps
        ),
    )  # fmt: skip


def _notes(quotes: Quotes, known: Mapping[str, object], short: Mapping[str, Sequence[Shortage]]) -> tuple[str, ...]:
    refused = sum(len(each) for each in short.values())
    unknown = sum(points is None for points in known.values())
    found = [
        f"Availability is what answers tell: {refused} refusals and losses are on record. From each until its "
        "cool-down had passed, or a node was granted, no more nodes of the offer can be held than were; at all other "
        "times as many as the planner dares to ask for.",
        "Quotas are those of now, less what other fleets held then.",
    ]
    if unknown:
        found.append(
            f"{unknown} of {len(quotes.offers)} offers have no recorded price: they cost throughout what they cost now."
        )
    return tuple(found)
