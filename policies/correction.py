"""Corrections of certified capacity by what answers were measured to keep.

A certificate says that a plan keeps a percentile of an objective at its planned rate; gateways count how many answers
did. Where fewer did than was promised, the instances do less than their certificate says, and the next plans use a
smaller share of it, the *correction factor* of the work class. Where more did, the factor is given back.

A share is only believed beyond what chance explains: answers that are late come together (they wait for each other), so
the bounds are Wilson's for as many independent answers as would scatter from minute to minute as these do. Steps are
bounded, and so is the factor. The utilisation at which answers fell short is remembered. To go back there brings the
shortfall again where instances are slow for good: each time, twice as long is waited before the next attempt, so that
such a fleet is planned again a logarithmic number of times.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

Z = 3.5
"""Standard errors between a share and its bounds: 1 in 4,300 by chance on either side. A fleet is looked at every few
minutes, and most looks see the same answers again."""
TOLERATED = 0.1
"""Share of the misses that a promise allows, by which more of them are no reason for anything."""
STEP = 0.9
"""Factor of a step."""
LONG_STEP = 0.8
"""The same where misses are certainly more than `FAR` times those allowed."""
FAR = 3.0
LEAST = 0.5
"""A factor below which the certificate is wrong in kind, and more of the same instances no remedy: measure them."""
SETTLED = timedelta(minutes=10)
"""Time that the instances have to have served unchanged before anything is judged."""
PATIENCE = timedelta(hours=1)
"""Time for which a factor stays, before a step of it is given back."""
BUSY = 0.8
"""Share of the planned load that has to have been asked before a step is given back: idle instances keep anything."""
MOST_PATIENCE = timedelta(days=7)
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Counted:
    """Answers of one minute."""

    answers: float
    kept: float
    """Those of them that were in time."""


@dataclass(frozen=True, slots=True)
class KeptShare:
    """Share of answers that kept an objective, with bounds."""

    answers: float
    share: float
    low: float
    high: float


def kept_share(minutes: Sequence[Counted]) -> KeptShare | None:
    """Return the share and its bounds at `Z`; None without answers."""
    minutes = [each for each in minutes if each.answers > 0]
    answers = sum(each.answers for each in minutes)
    if not answers:
        return None
    share = sum(each.kept for each in minutes) / answers
    alone = answers / _clustering(minutes, share, answers)
    low, high = _wilson(share, alone)
    return KeptShare(answers, share, low, high)


def _clustering(minutes: Sequence[Counted], share: float, answers: float) -> float:
    """Return the design effect, at least 1: the variance of the share, estimated from how it differs between minutes (a
    ratio estimator; Cochran, Sampling Techniques, 1977, section 2.11), over that of as many independent answers."""
    independent = share * (1 - share) / answers
    if len(minutes) < 2 or independent <= 0:
        return 1.0
    scatter = sum((each.kept - share * each.answers) ** 2 for each in minutes)
    return max(1.0, scatter * len(minutes) / (len(minutes) - 1) / answers**2 / independent)


def _wilson(share: float, answers: float) -> tuple[float, float]:
    """Wilson's score interval (Journal of the American Statistical Association 22, 1927)."""
    weight = Z * Z / answers
    centre = (share + weight / 2) / (1 + weight)
    half = Z * math.sqrt(share * (1 - share) / answers + weight / answers / 4) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True, slots=True)
class Correction:
    """Correction of one work class of a fleet."""

    factor: float
    """Share of the certified capacity that plans count on, beside the utilisation cap; 1: all of it."""
    changed_at: datetime
    reason: str = ""
    """Reason of the last change, for people."""
    was_given_back: bool = False
    """The last change was a step towards 1."""
    fell_short_at: float | None = None
    """The least share of the certified capacity at which answers fell short, unless they did not later."""
    relapses: int = 0
    """Times that a step towards 1 was followed by a shortfall."""
    cost_model: str = ""
    """Fingerprint of the step times that it corrects."""

    @property
    def is_any(self) -> bool:
        return self.factor < 1.0

    def is_outdated(self, cost_model: str) -> bool:
        """Tell whether it corrects step times that are others by now."""
        return self.is_any and self.cost_model != cost_model

    @property
    def next_factor(self) -> float:
        """Return the factor after one step towards 1."""
        return min(1.0, self.factor / STEP)

    @property
    def patience(self) -> timedelta:
        """Return the time for which the factor stays before a step is given back: longer where that leads to where
        answers fell short."""
        if self.fell_short_at is None or self.next_factor < self.fell_short_at * (1 - _ROUNDING):
            return PATIENCE
        return min(PATIENCE * 2.0 ** min(self.relapses, 16), MOST_PATIENCE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a work class whose objective is promised."""

    promised: float
    """Share that was promised."""
    kept: KeptShare
    """Of answers in times when no more was asked than planned for."""
    used: float
    """Share of the capacity within its utilisation cap that the plan in force uses, before any correction."""
    since: datetime
    """Time from which the answers are: the instances are the same since."""
    load: float = 1.0
    """Share of the planned load that was asked at these times."""

    @property
    def is_short(self) -> bool:
        return self.kept.high < self.promised - TOLERATED * (1 - self.promised)

    @property
    def is_ahead(self) -> bool:
        return self.load >= BUSY and self.kept.low > self.promised


def corrected(before: Correction | None, seen: Evidence, now: datetime) -> Correction | None:
    """Return the next correction; None: it stays as it is. At most one a time of `SETTLED`."""
    before = before or Correction(1.0, datetime.min.replace(tzinfo=now.tzinfo))
    if now - max(seen.since, before.changed_at) < SETTLED:
        return None
    if seen.is_short:
        return _less(before, seen, now)
    if before.is_any and seen.is_ahead and now - max(seen.since, before.changed_at) >= before.patience:
        return _more(before, seen, now)
    return None


def _less(before: Correction, seen: Evidence, now: datetime) -> Correction | None:
    if seen.used > before.factor * (1 + _ROUNDING):  # the plan in force does not have this correction yet
        return None
    missed = 1 - seen.kept.high
    step = LONG_STEP if missed > FAR * (1 - seen.promised) else STEP
    # Instances are whole: where the plan uses less than it may, a step of what it uses is one that makes a difference.
    factor = max(LEAST, step * seen.used)
    if factor >= min(before.factor, seen.used) * (1 - _ROUNDING):  # as low as it goes
        return None
    reason = f"{_kept(seen)}, and {_percent(seen.promised)} were promised"
    is_anew = not before.is_any and now - before.changed_at > MOST_PATIENCE
    fell_short_at = seen.used if is_anew or before.fell_short_at is None else min(before.fell_short_at, seen.used)
    return replace(
        before,
        factor=factor,
        changed_at=now,
        reason=reason,
        was_given_back=False,
        fell_short_at=fell_short_at,
        relapses=0 if is_anew else before.relapses + before.was_given_back,
    )


def _more(before: Correction, seen: Evidence, now: datetime) -> Correction:
    is_disproved = before.fell_short_at is not None and seen.used >= before.fell_short_at * (1 - _ROUNDING)
    return replace(
        before,
        factor=before.next_factor,
        changed_at=now,
        reason=f"{_kept(seen)}, more than the {_percent(seen.promised)} that were promised",
        was_given_back=True,
        fell_short_at=None if is_disproved else before.fell_short_at,
        relapses=0 if is_disproved else before.relapses,
    )


def _kept(seen: Evidence) -> str:
    kept = seen.kept
    return (
        f"{_percent(kept.share)} of {kept.answers:,.0f} answers since {seen.since:%Y-%m-%d %H:%M} UTC kept the "
        f"objective ({_percent(kept.low)} to {_percent(kept.high)} beyond chance)"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
