"""Corrections of certificates: believed beyond chance only, bounded, and without end to no flapping."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.correction import (
    LEAST,
    LONG_STEP,
    PATIENCE,
    SETTLED,
    STEP,
    TOLERATED,
    Correction,
    Counted,
    Evidence,
    KeptShare,
    Z,
    corrected,
    kept_share,
)

START = datetime(2026, 11, 21, tzinfo=UTC)
LOOK = timedelta(minutes=10)
DAYS = 7
KEPT_LOOKS = 36
"""That are judged together."""


def _binomial(draw: random.Random, answers: int, share: float) -> float:
    """Normal approximation, which is quick."""
    sd = (answers * share * (1 - share)) ** 0.5
    return min(answers, max(0.0, round(draw.gauss(answers * share, sd))))


@dataclass
class Fleet:
    """A fleet of one class whose instances do `true` of what they are certified for. Below that utilisation its answers
    keep more than 99 %, above they keep less, the more the farther."""

    true: float
    seed: int
    answers: int = 6_000
    """Between two looks."""
    grain: float = 0.0
    """Share of the capacity that one instance is: a plan uses less than it may by up to it."""
    correction: Correction | None = None
    used: float = 1.0
    changes: list[tuple[datetime, float]] = field(default_factory=list)

    def share(self) -> float:
        over = self.used / self.true - 1
        return max(0.5, 0.9915 - 0.15 * over if over > 0 else 0.9915 + min(0.006, -0.05 * over))

    def run(self, days: float) -> None:
        draw, now = random.Random(self.seed), START
        looks: list[Counted] = []
        self._plan()
        while now < START + timedelta(days=days):
            now += LOOK
            looks = [*looks, Counted(self.answers, _binomial(draw, self.answers, self.share()))][-KEPT_LOOKS:]
            kept = kept_share(looks)
            assert kept is not None
            seen = Evidence(0.99, kept, self.used, now - len(looks) * LOOK)
            if (found := corrected(self.correction, seen, now)) is not None:
                self.correction = found
                self.changes.append((now, found.factor))
                looks = []
                self._plan()

    def _plan(self) -> None:
        allowed = 1.0 if self.correction is None else self.correction.factor
        # Instances are whole: as many as it takes, of work that is 1 at full use of 1 / grain of them.
        self.used = allowed if not self.grain else 1 / (-(-1 // (allowed * self.grain)) * self.grain)

    @property
    def is_enough(self) -> bool:
        return self.used <= self.true


@settings(max_examples=40)
@given(st.floats(0.6, 1.1), st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.2]))
def test_capacities_of_running_fleets_are_found_with_few_plans(true: float, seed: int, grain: float) -> None:
    fleet = Fleet(true, seed, grain=grain)
    fleet.run(1.0)
    first_day = [factor for _, factor in fleet.changes]
    # Four steps to the least that is ever true, and as many to pass it and come back, twice as seldom each time.
    assert len(first_day) <= 14
    fleet.run(DAYS)
    assert len(fleet.changes) <= len(first_day) + 12
    for before, after in pairwise([1.0, *(factor for _, factor in fleet.changes)]):
        assert LEAST <= after <= 1.0
        assert after >= LONG_STEP * before * (1 - grain) - 1e-9
    if fleet.changes:
        # What is lost to steps is a step at most, and to whole instances one of them.
        assert fleet.used >= STEP * LONG_STEP * min(1.0, true) * (1 - grain) - 1e-9
    gaps = [later - sooner for (sooner, _), (later, _) in pairwise(fleet.changes)]
    assert all(gap >= SETTLED for gap in gaps)


@settings(max_examples=40)
@given(st.floats(0.6, 0.97), st.integers(0, 10**6))
def test_a_fleet_that_falls_short_keeps_its_promise_soon(true: float, seed: int) -> None:
    fleet = Fleet(true, seed)
    fleet.run(0.5)
    assert fleet.changes
    # A correction that is being tried out again may fall short for a while, and no longer than that. Nothing is
    # corrected of which chance and the tolerated misses explain the shortfall.
    misses = 0.01 * (1 + TOLERATED)
    unseen = misses + Z * (misses * (1 - misses) / (KEPT_LOOKS * fleet.answers)) ** 0.5
    is_tried = fleet.correction is not None and fleet.correction.was_given_back
    assert fleet.is_enough or is_tried or fleet.share() > 1 - 1.1 * unseen


@settings(max_examples=40)
@given(st.floats(1.0, 1.1), st.integers(0, 10**6), st.integers(50, 50_000))
def test_what_keeps_its_promise_is_never_corrected(true: float, seed: int, answers: int) -> None:
    fleet = Fleet(true, seed, answers)
    fleet.run(7.0)
    assert fleet.changes == []


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.5, 1.0))
def test_instances_that_are_as_fast_as_certified_again_get_all_back(seed: int, factor: float) -> None:
    fleet = Fleet(1.05, seed, correction=Correction(factor, START, "slow disks"))
    fleet.run(1.0)
    assert fleet.correction is not None
    assert not fleet.correction.is_any
    times = [at for at, _ in fleet.changes]
    assert all(later - sooner >= PATIENCE for sooner, later in pairwise(times))


def test_answers_that_are_late_together_prove_less() -> None:
    even = [Counted(100, 97)] * 60
    together = [Counted(100, 100)] * 54 + [Counted(100, 70)] * 6
    alone, clustered = kept_share(even), kept_share(together)
    assert alone is not None
    assert clustered is not None
    assert (alone.share, clustered.share) == (pytest.approx(0.97), pytest.approx(0.97))
    assert alone.high < 0.98 < clustered.high
    assert kept_share([Counted(0, 0)]) is None
    whole = kept_share([Counted(50, 50)])
    assert whole is not None
    assert whole.low < 0.99 < whole.high == 1.0


def _seen(share: float, used: float = 1.0, since: datetime = START) -> Evidence:
    return Evidence(0.99, KeptShare(10_000, share, share - 0.002, min(1.0, share + 0.002)), used, since)


def _asks() -> Iterator[tuple[Correction | None, Evidence, timedelta, float | None]]:
    now = timedelta(hours=2)
    yield None, _seen(0.98), now, STEP
    yield None, _seen(0.90), now, LONG_STEP
    yield None, _seen(0.9875), now, None  # within what is tolerated
    yield None, _seen(0.98), timedelta(minutes=5), None  # too soon to tell
    yield None, _seen(0.98, 0.8), now, 0.8 * STEP  # whole instances: it has to make a difference
    yield None, _seen(0.98, 0.3), now, None  # less is used than the least that it may be corrected to
    yield Correction(0.52, START), _seen(0.9, 0.52), now, LEAST
    yield Correction(LEAST, START), _seen(0.9, 0.5), now, None  # as low as it goes
    yield Correction(0.8, START), _seen(0.9, 0.95), now, None  # a plan that does not have it yet
    yield Correction(0.8, START), _seen(0.995, 0.8), now, 0.8 / STEP
    yield Correction(0.8, START, fell_short_at=0.85, relapses=3), _seen(0.995, 0.8), now, None  # it did three times
    yield Correction(0.8, START, fell_short_at=0.95, relapses=3), _seen(0.995, 0.8), now, 0.8 / STEP
    yield Correction(0.8, START), replace(_seen(0.995, 0.8), load=0.5), now, None  # hardly anything was asked
    yield Correction(0.95, START), _seen(0.995, 0.8), now, 1.0
    yield Correction(1.0, START), _seen(0.995), now, None


@pytest.mark.parametrize(("before", "seen", "later", "factor"), list(_asks()))
def test_a_step(before: Correction | None, seen: Evidence, later: timedelta, factor: float | None) -> None:
    found = corrected(before, seen, START + later)
    assert (None if found is None else found.factor) == (None if factor is None else pytest.approx(factor))


def test_a_shortfall_that_comes_back_is_remembered_until_it_is_disproved() -> None:
    short = corrected(None, _seen(0.97), START + timedelta(hours=1))
    assert short is not None
    given_back = corrected(short, _seen(0.996, short.factor), START + timedelta(hours=3))
    assert given_back is not None
    assert (given_back.was_given_back, given_back.factor) == (True, 1.0)
    again = corrected(given_back, _seen(0.97), START + timedelta(hours=5))
    assert again is not None
    assert (again.relapses, again.patience, again.fell_short_at) == (1, 2 * PATIENCE, 1.0)
    faster = corrected(replace(again, factor=0.95), _seen(0.996, 0.95), START + timedelta(hours=9))
    assert faster is not None
    assert faster.relapses == 1
    proved = corrected(replace(again, factor=0.95, fell_short_at=0.93), _seen(0.996, 0.95), START + timedelta(hours=9))
    assert proved is not None
    assert (proved.relapses, proved.fell_short_at) == (0, None)
