"""What is asked of an app between two plans, and what is remembered of it from look to look."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from control.demand.heard_load import HeardOf
from policies.demand_history import DemandHistory
from policies.metered_demand import DemandRule
from policies.pools.app_pools import AppPools
from policies.pools.lateness import Answers, Lateness, certain_count, may_help
from policies.pools.scaling_settings import ScalingSettings


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests are those of the planned mix that ask as much of the pools (`AppPools.requests_per_s`)."""

    minutes: tuple[float, ...]
    """Requests/s, minute by minute; the oldest first, the last the one that was reported last."""
    requests_per_s: float
    """Of now."""
    units_per_s: Mapping[str, float]
    """Of now, by work class: the last minute's, or those of the last seconds, as far as they are no chance."""
    answers: Answers


def asked_of(
    rules: Iterable[DemandRule],
    recent: Mapping[str, DemandHistory],
    lately: Mapping[str, HeardOf],
    pools: AppPools,
) -> Asked | None:
    """Return what is asked of the app of `rules`, all its types together. `recent`: by `DemandRule.key`, of minutes;
    `lately`: by `DemandRule.metered`. None: nothing is known."""
    listed = tuple(rules)
    histories = [recent[rule.key] for rule in listed if rule.key in recent]
    heard = [lately[rule.metered] for rule in listed if rule.metered in lately]
    if not histories and not heard:
        return None
    minutes = _by_minute(histories)
    requests = sum(each.requests for each in heard)
    certain = certain_count(requests) / requests if requests else 0.0
    now: dict[str, float] = dict(minutes[-1]) if minutes else {}
    for work_class in {name for each in heard for name in each.units_per_s}:
        units_per_s = certain * sum(each.units_per_s.get(work_class, 0.0) for each in heard)
        now[work_class] = max(now.get(work_class, 0.0), units_per_s)
    answers = sum((each.answers for each in heard), Answers())
    return Asked(tuple(map(pools.requests_per_s, minutes)), pools.requests_per_s(now), now, answers)


def _by_minute(histories: list[DemandHistory]) -> list[dict[str, float]]:
    """Units/s by work class, over the minutes that all know, which end now."""
    steps = min((len(each.requests_per_s) for each in histories), default=0)
    found: list[dict[str, float]] = [{} for _ in range(steps)]
    for history in histories if steps else ():
        for (work_class, _), rates in history.units_per_s.items():
            for place, rate in enumerate(rates[-steps:].tolist()):
                found[place][work_class] = found[place].get(work_class, 0.0) + rate
    return found


@dataclass(slots=True)
class Seen:
    """Of one app, by one control plane."""

    needed: float = 0.0
    """Requests/s that are asked for now, or that are enough for these."""
    peak: float = 0.0
    """Highest rate of the time that less has to be enough for."""
    enough: float = 0.0
    """Requests/s to plan for by what was too little before; 0: nothing was."""
    forecast: tuple[int, float] | None = None
    """(minute, requests/s that are planned for without a burst)."""
    _late: Lateness = field(default_factory=lambda: Lateness(ScalingSettings()))

    def take(self, asked: Asked, now: datetime, settings: ScalingSettings) -> None:
        """Take a look into account. Looks come in order of time."""
        self._late.settings = settings
        self._late.take(now.timestamp(), asked.requests_per_s)
        self.peak = max((*asked.minutes, self._late.peak))
        self._set_enough(asked, now)

    def late_with(
        self, pools: AppPools, asked: Asked, now: datetime, settings: ScalingSettings, *, is_steady: bool
    ) -> str:
        """Say why more is needed than the pools have: they are late with it, or have been at such a load; empty: it is
        not. `is_steady`: all of them serve, and have for as long as answers count."""
        # Of requests that are too few to say how many come, the next minute tells.
        is_late = is_steady and asked.requests_per_s > 0 and asked.answers.is_below(settings.threshold)
        if is_late and may_help(*pools.asked_of_busiest(asked.units_per_s)):
            self._late.note(now.timestamp(), pools.with_one_more(asked.units_per_s))
            self._set_enough(asked, now)
        if self.enough <= pools.sustained:
            return ""
        share = f"{asked.answers.share:.1%} of the last minute's {asked.answers.judged:g} answers are in time"
        return f"{share}, of {settings.threshold:.1%}" if is_late else "answers were late at such a load"

    def _set_enough(self, asked: Asked, now: datetime) -> None:
        self.enough = self._late.enough(now.timestamp())
        self.needed = max(asked.requests_per_s, self.enough)
