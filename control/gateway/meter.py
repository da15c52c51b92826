"""Counts the load that a gateway is offered: what clients want, not what they get.

A request is counted in the interval in which it came, and what becomes known of it later (how long its answer was, that
it was served or refused) is written into that interval too. So an interval may change for as long as a request of it is
open; each change of what was told is another revision.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from agents.messages.to_demand_desk import (
    MAX_KEYS,
    MAX_LINES,
    Offered,
    OfferedLine,
    OfferedWork,
    Recent,
    ServedKey,
)
from control.gateway.recent_load import RecentLoad, add_units
from policies.metered_work import MeteredClass
from templates_lib.values.work import DEFAULT_TYPE, Unit

_log = logging.getLogger(__name__)

_LEARNING = 0.02
"""Weight of one answer in the mean length of a model's answers."""

_MOST_KEYS_KEPT = 500_000
"""Keys counted apart over all intervals, about 100 MB: a day without a control plane has 1440 of these."""
_NOTHING: Mapping[Unit, float] = {}
Kind = tuple[str, str, str]
"""Fleet, app, project."""


@dataclass(slots=True)
class _Served:
    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    made: dict[Unit, float] = field(default_factory=dict)
    """Of sound or pictures."""

    def units(self, of: MeteredClass) -> int:
        return of.units(self.requests, self.prompt_tokens, self.output_tokens, self.made)


@dataclass(slots=True)
class _Counts:
    classes: tuple[MeteredClass, ...]
    requests: int = 0
    refused: int = 0
    refused_prompt_tokens: int = 0
    refused_output_tokens: float = 0.0
    prompt_tokens: int = 0
    output_tokens: float = 0.0
    served: _Served = field(default_factory=_Served)
    made: dict[Unit, float] = field(default_factory=dict)
    """What generators are asked for, of sound or pictures, and what encoders get of them."""
    refused_made: dict[Unit, float] = field(default_factory=dict)
    keys: dict[str, _Served] = field(default_factory=dict)
    """By the id of each key, of what was served."""


@dataclass(slots=True)
class _Interval:
    started_s: int
    seconds: int
    counts: dict[Kind, _Counts] = field(default_factory=dict)
    keys: int = 0
    """Over all counts."""
    open: int = 0
    """Requests of which more will be known."""
    is_changed: bool = True
    """True where it has changed since its last revision."""
    revision: int = 0
    stored: int = 0
    """Revision that is safe."""


@dataclass(slots=True)
class Offer:
    """One request, until it is settled."""

    fleet: str
    app: str
    prompt_tokens: int
    output_tokens: float
    """Expected."""
    is_new: bool
    """False: a client asks again for what it was refused, which is no more demand; but it is use, when it is served."""
    has_answer: bool
    """False: no tokens are asked for, and their number says nothing of answers."""
    made: Mapping[Unit, float]
    """Of sound or pictures, expected."""
    brought: Mapping[Unit, float]
    """Rows of its pictures and sounds, which encoders make."""
    _interval: _Interval | None
    _counts: _Counts
    _served: tuple[_Served, ...]
    """Of its kind, and of its key where that is counted apart."""


class Meter:
    """Time is that of a clock that never goes back."""

    def __init__(self, life: str, seconds: int, most_intervals: int, clock: Callable[[], float]) -> None:
        """`most_intervals`: kept while nobody stores them. `clock`: Unix seconds."""
        self.dropped = 0
        """Intervals that were given up, as too many were waiting to be stored."""
        self._life = life
        self._seconds = seconds
        self._most = most_intervals
        self._clock = clock
        self._intervals: dict[int, _Interval] = {}
        self._keys = 0
        """Over all intervals."""
        self._began_s = clock()
        self._now: _Interval | None = None
        self._served: Mapping[tuple[str, str], tuple[MeteredClass, ...]] = {}
        self._mean_output: dict[str, float] = {}
        self._recent = RecentLoad(clock)
        self._roll()

    def serve(self, apps: Mapping[tuple[str, str], Iterable[MeteredClass]]) -> None:
        """(fleet, app) of all models from now on, and what their requests are counted in: an interval says of each that
        nobody came, if so."""
        self._served = {app: tuple(classes) for app, classes in apps.items()}
        names = {app for _, app in self._served}
        self._mean_output = {app: mean for app, mean in self._mean_output.items() if app in names}

    def expected_output(self, app: str, planned: float, most: int) -> float:
        """Tokens of an answer: the mean of late, or as planned; `most`: that may be made."""
        return min(self._mean_output.get(app, planned), float(most))

    def offer(
        self,
        kind: Kind,
        prompt_tokens: int,
        output_tokens: float,
        *,
        key: str = "",
        is_new: bool = True,
        has_answer: bool = True,
        made: Mapping[Unit, float] = _NOTHING,
        brought: Mapping[Unit, float] = _NOTHING,
    ) -> Offer:
        """A request came. `output_tokens`, and `made` of sound or pictures: as expected; what it was is told by
        `settle`. `brought`: rows of those that it brings. `key`: id of its API key; empty where the gateway asks for
        none."""
        interval = self._roll()
        counts, own = interval.counts.get(kind), kind
        if counts is None:
            fleet, app, project = kind
            is_full = len(interval.counts) >= MAX_LINES - len(self._served)
            own = fleet, app, "" if is_full else project
            counts = interval.counts.setdefault(own, _Counts(self._served.get((fleet, app), ())))
        if is_new:
            counts.requests += 1
            counts.prompt_tokens += prompt_tokens
            counts.output_tokens += output_tokens
            add_units(counts.made, made)
            add_units(counts.made, brought)
            self._recent.asked(kind[:2], prompt_tokens, output_tokens, (made, brought))
        interval.open += 1
        interval.is_changed = True
        served = self._served_of(interval, counts, key) if own == kind else (counts.served,)
        amounts = prompt_tokens, output_tokens
        return Offer(*kind[:2], *amounts, is_new, has_answer, made, brought, interval, counts, served)

    def refuse(self, offer: Offer) -> None:
        """Note that a request was refused for want of capacity."""
        counts = offer._counts
        if offer.is_new:
            counts.refused += 1
            counts.refused_prompt_tokens += offer.prompt_tokens
            counts.refused_output_tokens += offer.output_tokens
            add_units(counts.refused_made, offer.made)
            add_units(counts.refused_made, offer.brought)
        self._close(offer)

    def settle_made(self, offer: Offer, made: Mapping[Unit, float], *, is_whole: bool, is_length_known: bool) -> None:
        """The same as `settle` of what is no tokens."""
        counts = offer._counts
        for served in offer._served:
            add_units(served.made, made)
        if is_length_known and offer.is_new:
            add_units(counts.made, made)
            add_units(counts.made, offer.made, -1.0)
        self.settle(offer, 0, is_whole=is_whole, is_length_known=is_length_known)

    def settle(self, offer: Offer, made: int, *, is_whole: bool, is_length_known: bool) -> None:
        """It is over. `is_whole`: the answer ended by itself; `is_length_known`: nobody wants more than `made`."""
        counts = offer._counts
        for served in offer._served:
            served.requests += is_whole
            served.output_tokens += made
            if made or is_whole:
                served.prompt_tokens += offer.prompt_tokens
                add_units(served.made, offer.brought)
        if is_length_known and offer.is_new:
            counts.output_tokens += made - offer.output_tokens
        if is_whole and offer.has_answer:
            mean = self._mean_output.get(offer.app, float(made))
            self._mean_output[offer.app] = mean + _LEARNING * (made - mean)
        self._close(offer)

    def judge(self, offer: Offer, *, is_in_time: bool) -> None:
        """Note whether an answer kept all objectives that it has."""
        self._recent.judged((offer.fleet, offer.app), is_in_time=is_in_time)

    def recent(self) -> Recent:
        """What came in the last seconds, of models that are served."""
        return self._recent.report(self._served)

    def due(self, most: int, *, with_open: bool = False) -> list[Offered]:
        """Up to `most` intervals that are over (`with_open`: the one of now too) and not stored, the oldest first."""
        now = self._roll()
        found: list[Offered] = []
        for interval in list(self._intervals.values()):
            if interval is now and not with_open:
                break
            if interval.is_changed:
                interval.is_changed = False
                interval.revision += 1
            if interval.stored < interval.revision and len(found) < most:
                found.append(self._message(interval))
        return found

    @property
    def unstored(self) -> int:
        return sum(i.is_changed or i.stored < i.revision for i in self._intervals.values() if i is not self._now)

    @property
    def next_s(self) -> float:
        """Seconds until the interval of now is over."""
        now = self._roll()
        return now.started_s + self._seconds - self._clock()

    def stored(self, started_s: int, revision: int) -> None:
        interval = self._intervals.get(started_s)
        if interval is not None:
            interval.stored = max(interval.stored, revision)
            self._forget(interval)

    def _close(self, offer: Offer) -> None:
        interval, offer._interval = offer._interval, None
        if interval is not None:
            interval.open -= 1
            interval.is_changed = True
            self._forget(interval)

    def _forget(self, interval: _Interval) -> None:
        """What is safe and cannot change."""
        is_safe = not interval.open and not interval.is_changed and interval.stored >= interval.revision
        if is_safe and interval is not self._now:
            self._remove(interval.started_s)

    def _roll(self) -> _Interval:
        """The interval of now."""
        started_s = int(self._clock() // self._seconds) * self._seconds
        if self._now is not None and started_s <= self._now.started_s:
            return self._now
        missing_s = self._began_s - started_s if self._now is None else 0.0
        before, self._now = self._now, _Interval(started_s, max(1, round(self._seconds - missing_s)))
        if before is not None:
            self._note_nobody(before)
            self._forget(before)
        self._intervals[started_s] = self._now
        while len(self._intervals) > self._most:
            oldest = next(iter(self._intervals))
            self._remove(oldest)
            self.dropped += 1
            _log.error("load of the interval at %d is not known to the control plane and is given up", oldest)
        return self._now

    def _remove(self, started_s: int) -> None:
        removed = self._intervals.pop(started_s, None)
        self._keys -= 0 if removed is None else removed.keys

    def _served_of(self, interval: _Interval, counts: _Counts, key: str) -> tuple[_Served, ...]:
        own = counts.keys.get(key)
        if own is None and key and interval.keys < MAX_KEYS and self._keys < _MOST_KEYS_KEPT:
            interval.keys += 1
            self._keys += 1
            own = counts.keys[key] = _Served()
        return (counts.served,) if own is None else (counts.served, own)

    def _note_nobody(self, interval: _Interval) -> None:
        there = {(fleet, app) for fleet, app, _ in interval.counts}
        for (fleet, app), classes in self._served.items():
            if (fleet, app) not in there:
                interval.counts[fleet, app, ""] = _Counts(classes)

    def _message(self, interval: _Interval) -> Offered:
        lines = tuple(
            OfferedLine(
                fleet,
                app,
                DEFAULT_TYPE,
                project,
                c.requests,
                c.refused,
                c.prompt_tokens,
                max(0, round(c.output_tokens)),
                c.served.requests,
                c.served.prompt_tokens,
                c.served.output_tokens,
                tuple(_work(each, c) for each in c.classes),
                tuple(
                    ServedKey(key, of.requests, tuple(of.units(each) for each in c.classes))
                    for key, of in c.keys.items()
                    if of != _Served()
                ),
            )
            for (fleet, app, project), c in interval.counts.items()
        )
        return Offered(self._life, interval.started_s, self._covered(interval), interval.revision, lines)

    def _covered(self, interval: _Interval) -> int:
        """Seconds of it that were watched: the one of now is not over."""
        if interval is not self._now:
            return interval.seconds
        return max(1, interval.seconds - round(interval.started_s + self._seconds - self._clock()))


def _work(of: MeteredClass, c: _Counts) -> OfferedWork:
    return OfferedWork(
        of.work_class,
        of.unit,
        of.units(c.requests, c.prompt_tokens, c.output_tokens, c.made),
        of.units(c.refused, c.refused_prompt_tokens, c.refused_output_tokens, c.refused_made),
        c.served.units(of),
    )
