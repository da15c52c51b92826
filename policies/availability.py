"""Availability learned from refusals: how long not to ask again, and how many nodes to count on after that.

No cloud says beforehand what it has: what it answered is all there is. After a refusal nobody asks again before a
cool-down that doubles with every refusal in a row; then the next try is a probe for few nodes. What gives is asked for
twice as much as it gave since it last refused: a plan that counted on a few more at a time would rent dearer nodes for
the rest, and give them back one plan later. What was learned fades with a half-life, so that a market that changed its
mind is believed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

HALF_LIFE_S = 6 * 3600.0
"""Seconds after which a refusal, or a success, counts half."""
FORGOTTEN = 0.05
"""Weight of refusals below which an offer counts as unproven again."""


class CallOutcome(StrEnum):
    """Results of a call for a node, or of a node."""

    GRANTED = "granted"
    STOCK_OUT = "stock-out"
    QUOTA = "quota"
    """A limit of the account, shared by the offers of its quota family."""
    TAKEN = "taken"
    """The cloud took a spot node back, or said that it will: others want it more."""
    REFUSED = "refused"
    """The request is wrong for this cloud."""
    UNAUTHORISED = "unauthorised"
    """No call to this cloud works."""
    UNKNOWN = "unknown"
    """Throttled or lost: it says nothing about the offer."""


@dataclass(frozen=True, slots=True)
class CoolDown:
    """Times of not asking, seconds: after the first refusal, and at most. Each in a row doubles it."""

    first_s: float
    most_s: float


COOL_DOWNS: Mapping[CallOutcome, CoolDown] = MappingProxyType(
    {
        # By logs of real spot markets (bench/stock_outs.py): an hour at most would miss a tenth of what could be had,
        # a quarter of an hour a twentieth, for two calls an hour; five minutes miss a sixtieth, for five calls.
        CallOutcome.STOCK_OUT: CoolDown(60, 300),
        # What frees it is a node given back, or a person who raises the limit.
        CallOutcome.QUOTA: CoolDown(300, 3600),
        # As a stock-out: the market is short of what was just taken.
        CallOutcome.TAKEN: CoolDown(120, 300),
        # Until somebody changes something.
        CallOutcome.REFUSED: CoolDown(1800, 6 * 3600),
        CallOutcome.UNAUTHORISED: CoolDown(300, 1800),
    }
)
ROW_ENDS_AFTER = 2.0
"""Longest cool-downs after a refusal, until which one more is of the same row even if something was given between.
Where two nodes are left and three are wanted, two are given and the third is refused, again and again."""
LEAST_COOL_DOWN_S = min(each.first_s for each in COOL_DOWNS.values())
"""Shortest time between two calls to a subject that refuses, by all processes together."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Knowledge of a subject: an offer, the quota family that it counts against, or its whole cloud."""

    at: datetime
    """Time of the last outcome."""
    outcome: CallOutcome
    reason: str
    refusals_in_row: int = 0
    since: datetime | None = None
    """Time of the last refusal, with which the cool-down began; None: there was none."""
    cool_down_s: float = 0.0
    """0 once a try succeeded."""
    granted: float = 0.0
    refused: float = 0.0
    """Weights of successes and refusals as of `at`."""
    granted_in_row: float = 0.0
    """Weight of the successes since the last refusal."""

    @property
    def excluded_until(self) -> datetime | None:
        """Return until when it is not asked; None when it may be."""
        if self.since is None or not self.cool_down_s:
            return None
        return self.since + timedelta(seconds=self.cool_down_s)


def learn(known: Learned | None, outcome: CallOutcome, reason: str, now: datetime) -> Learned:
    """Return the knowledge after one more outcome. UNKNOWN teaches nothing: callers leave it out."""
    faded = 1.0 if known is None else _fade(known, now)
    granted, refused = (0.0, 0.0) if known is None else (known.granted * faded, known.refused * faded)
    if outcome is CallOutcome.GRANTED:
        in_row = 1 + (0.0 if known is None else known.granted_in_row * faded)
        row, since = (0, None) if known is None else (known.refusals_in_row, known.since)
        return Learned(now, outcome, reason, row, since, 0.0, granted + 1, refused, in_row)
    if known is not None and is_excluded(known, now):
        # It was under way when the cool-down began: one shortage, not two.
        return replace(known, at=max(known.at, now), granted=granted, refused=refused, granted_in_row=0.0)
    rule = COOL_DOWNS[outcome]
    in_row = 1 if known is None or not _is_same_row(known, faded, rule, now) else known.refusals_in_row + 1
    cool_down_s = min(rule.most_s, rule.first_s * 2.0 ** min(in_row - 1, 30))
    return Learned(now, outcome, reason, in_row, now, cool_down_s, granted, refused + 1)


def _is_same_row(known: Learned, faded: float, rule: CoolDown, now: datetime) -> bool:
    # What is long forgotten does not make the next shortage longer.
    if known.since is None or known.refused * faded < FORGOTTEN:
        return False
    return known.cool_down_s > 0 or now - known.since <= timedelta(seconds=ROW_ENDS_AFTER * rule.most_s)


def is_excluded(known: Learned, now: datetime) -> bool:
    """Tell whether the subject is in its cool-down. A clock that was set back ends no cool-down."""
    until = known.excluded_until
    return until is not None and now < until


def success_estimate(known: Learned, now: datetime) -> float:
    """Chance that the next try succeeds, 0 to 1: remembered successes among all, one success granted before."""
    faded = _fade(known, now)
    granted, refused = known.granted * faded, known.refused * faded
    return (1 + granted) / (1 + granted + refused)


def nodes_to_count_on(known: Learned, now: datetime, max_unproven_nodes: int) -> int | None:
    """Return how many nodes beyond those held a plan may count on; None: as many as of an offer that nothing is known
    of.

    0 during the cool-down. After it, the share of `max_unproven_nodes` that the estimate allows, one at least, or
    nobody would ever find out; but twice as many as were given since the last refusal, where that is more.
    """
    if is_excluded(known, now):
        return 0
    proven = round(2 * known.granted_in_row * _fade(known, now))
    if known.refused * _fade(known, now) < FORGOTTEN:
        return proven if proven > max_unproven_nodes else None
    return max(1, int(max_unproven_nodes * success_estimate(known, now)), proven)


def _fade(known: Learned, now: datetime) -> float:
    passed_s = max(0.0, (now - known.at).total_seconds())
    return float(0.5 ** (passed_s / HALF_LIFE_S))
