"""How many nodes of an offer could be held, as far as what clouds answered tells."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from control.db.past import PastCall, PastNode
from control.market.answers import concerned
from control.offers.learned import subjects
from control.simulator.step_log import StepLog, step_log
from policies.availability import CallOutcome, Learned, learn
from templates_lib.values.offer import Offer

_ANSWERED_WITHIN = timedelta(minutes=10)
"""A call for a node: what takes longer is given up (`control.lifecycle.patience`)."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Key of what is remembered together (`control.offers.learned`): an offer, a quota family or a cloud."""

    subject: str
    since: datetime
    until: datetime


def shortages(calls: Iterable[PastCall], offers: Mapping[str, Offer]) -> tuple[Shortage, ...]:
    """From each refusal until the cool-down after it has passed, or something was granted before that.

    That is the loop's own belief (`policies.availability`): nobody asked meanwhile, so nobody knows better. Calls for
    offers that are not in `offers` say nothing. `calls`: in order.
    """
    known: dict[str, Learned] = {}
    found: dict[str, list[Shortage]] = {}
    for call in calls:
        offer = offers.get(call.offer)
        if offer is None or call.outcome is CallOutcome.UNKNOWN:
            continue
        for subject in concerned(offer, call.outcome):
            own = found.setdefault(subject, [])
            known[subject] = learn(known.get(subject), call.outcome, call.reason, call.at)
            until = known[subject].excluded_until
            if own and own[-1].until > call.at:
                own[-1] = Shortage(subject, own[-1].since, call.at)
            if until is not None:
                own.append(Shortage(subject, call.at, until))
    return tuple(each for own in found.values() for each in own)


def as_asked(calls: Iterable[PastCall], nodes: Sequence[PastNode]) -> tuple[PastCall, ...]:
    """`calls` as of when their nodes were asked for, which is before they were answered and written down. Of what was
    asked together, what was granted comes first: a refusal beside it says that this was all there was."""
    asked: dict[tuple[str, bool], list[datetime]] = {}
    for node in nodes:
        asked.setdefault((node.offer, node.created_at is not None), []).append(node.requested_at)

    def moment(call: PastCall) -> datetime:
        known = asked.get((call.offer, call.outcome is CallOutcome.GRANTED), [])
        return max((at for at in known if call.at - _ANSWERED_WITHIN <= at <= call.at), default=call.at)

    moved = [replace(call, at=call.at if call.outcome is CallOutcome.TAKEN else moment(call)) for call in calls]
    return tuple(sorted(moved, key=lambda call: (call.at, call.outcome is not CallOutcome.GRANTED)))


def taken(offer: Offer, at: datetime, lasts: timedelta) -> Shortage:
    """A node of it was lost."""
    return Shortage(offer.key, at, at + lasts)


def nodes_log(
    offer: Offer,
    short: Mapping[str, Sequence[Shortage]],
    held: Callable[[datetime], int],
    seconds: Callable[[datetime], float],
    otherwise: StepLog,
) -> StepLog:
    """How many nodes of `offer` can be held: during a shortage of it, or of what it belongs to, as many as were `held`
    just after it began, else `otherwise`.

    `short`: by subject. `seconds`: on the axis of the log.
    """
    own = [
        (seconds(each.since), seconds(each.until), float(held(each.since)))
        for subject in subjects(offer)
        for each in short.get(subject, ())
    ]
    times = sorted({t for begin, end, _ in own for t in (begin, end)} | set(otherwise.times_s))
    first = [] if not times else [times[0] - 1.0]

    def most(at_s: float) -> float:
        least = min((count for begin, end, count in own if begin <= at_s < end), default=inf)
        return min(least, otherwise.at(at_s))

    return step_log((time, most(time)) for time in (*first, *times))
