"""Plans that keep a percentile of the objectives when requests queue: plan, simulate, correct, plan again.

What a set of instances sustains depends on how many there are and how unlike they are, so no certificate of a lone one
tells. Each work class has a utilisation cap: a plan is solved under the caps and simulated at its planned rate, and the
cap of a class is moved towards the highest utilisation at which it was seen to keep its percentile. Caps are bracketed
from both sides, so that the loop ends; it depends on the snapshot, the library and the seed alone. A snapshot that has
caps, those of the plan in force, is begun from them, with narrow brackets around them: they are right, or nearly so.

A class that is late may be so for the pool that it had: one of many stages where two instances would have done, unlike
ones of which the slow are too slow. So those classes are planned once more at a high cap, at which the templates of the
pools that were late have caps of their own, and what is found then is kept where it keeps every promise for less. That
is done where caps are found for the first time.

Where answers of the fleet that runs kept less than was promised, its snapshot has corrections: the caps are found
without them, as the simulator knows nothing of what went wrong, and the plan is then solved once more under the caps
times these factors. So it is with the margins of step times that may be off: the simulator takes them for true.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.planning.templates import Templates
from templates_lib.values.plan import Attained, Plan, PlannedInstance
from templates_lib.values.snapshot import Snapshot

FIRST_CAPS = {True: 0.65, False: 1.0}
"""Caps to begin with, of classes that queue before a first token, and of others, whose templates are certified with
waiting already."""
MOST = 1.0
"""A cap that is never passed: beyond what templates are certified for, queues grow for as long as one looks."""
STEP = 0.8
"""Factor of a cap whose class has kept nothing yet."""
LEAST_LATE = 1e-4
"""Share that is late where none was seen to be."""
LEAST = 0.1
"""A cap below which more of the same instances help nobody: what is late there is late alone."""
CLOSE, ROUNDING = 0.03, 1e-9
"""Distance of the brackets of a cap that is found, and what sums of caps are off by."""
NEAR = 2 * CLOSE
"""How far from a cap that is begun from its limit is looked for first; where it is not found there, twice as far."""
ROUNDS = 16
"""Plans that are simulated, at most."""
OTHER_POOLS, TRIES = 6, 2
"""Plans of other pools than those that were late that are simulated, at most, and how many of them for a class that is
late in each."""
WORTH = 0.003
"""Share of the demand, or of the cost, by which a plan has to be better than one that keeps every promise to be looked
at."""
SOLVES = 64
"""Plans that are made, at most."""


class Attainment(Protocol):
    @property
    def classes(self) -> Mapping[str, bool]:
        """Work classes that are promised something: whether requests queue there before their first token."""
        ...

    def __call__(self, plan: Plan, snapshot: Snapshot) -> Mapping[str, Attained]:
        """Simulate `plan` at its planned rates: how each of those classes fared that requests came to."""
        ...

    def under(self, recipe: Recipe, templates: Templates) -> "Attainment":
        """Return what simulates plans of another recipe for the same models, with what is known of them already."""
        ...


AttainmentOf = Callable[[Recipe, Templates], Attainment]
"""Makes what simulates plans of a recipe, with its templates."""


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """A plan that was simulated, under the caps that made it."""

    plan: Plan
    snapshot: Snapshot
    """With the caps."""
    attainment: Mapping[str, Attained]

    @property
    def is_kept(self) -> bool:
        return all(each.is_kept for each in self.attainment.values())


def promised(snapshot: Snapshot, solve: Callable[[Snapshot], Plan], attain: Attainment) -> Promise:
    """Find the cheapest plan that was seen to keep every promise; where none was, the one that comes nearest. The
    snapshot's own caps are those to begin from; its corrections and margins are made to those that were found."""
    given = snapshot.settings
    corrections = {name: each for name, each in given.corrections.items() if name in attain.classes}
    found = _searched(replace(snapshot, settings=given.without_allowances()), solve, attain)
    if not corrections and not given.step_time_margins:
        return found
    settings = replace(found.snapshot.settings, corrections=corrections, step_time_margins=given.step_time_margins)
    under = versioned(replace(found.snapshot, settings=settings))
    plan = solve(under)
    return Promise(plan, under, attain(plan, under))


def _searched(snapshot: Snapshot, solve: Callable[[Snapshot], Plan], attain: Attainment) -> Promise:
    begun = snapshot.settings.utilisation_caps
    brackets = {
        name: _Bracket(begun[name], NEAR) if name in begun else _Bracket(FIRST_CAPS[waits], MOST)
        for name, waits in attain.classes.items()
    }
    best: Promise | None = None
    demand = sum(each.requests_per_s for each in snapshot.demand)
    tried: list[dict[str, float]] = []
    solved: dict[tuple[float, ...], tuple[Plan, Snapshot]] = {}
    late = _Late(snapshot.settings.template_caps)
    simulated = 0

    def solved_under(caps: dict[str, float]) -> tuple[Plan, Snapshot]:
        """The highest caps that were not seen to fail are often those of the round before."""
        key = tuple(caps.values())
        if key not in solved:
            settings = snapshot.settings.capped(caps, snapshot.settings.template_caps)
            under = versioned(replace(snapshot, settings=settings))
            solved[key] = solve(under), under
        return solved[key]

    for _ in range(SOLVES):
        caps = {name: bracket.cap for name, bracket in brackets.items()}
        if caps in tried:
            break
        tried.append(caps)
        plan, under = solved_under(caps)
        if best is not None and best.is_kept and not _is_better(plan, best.plan, demand):
            # No better however it fares: go on to what is, without simulating it.
            moved = [bracket.pass_over() for bracket in brackets.values()]
            if not any(moved):
                break
            continue
        found = Promise(plan, under, attain(plan, under))
        simulated += 1
        if best is None or _rank(found) < _rank(best):
            best = found
        used = utilisation(plan, under)
        late.note(found, used)
        for name, each in found.attainment.items():
            brackets[name].note(used.get(name, 0.0), each)
        if simulated == ROUNDS or (found.is_kept and all(brackets[name].is_closed for name in found.attainment)):
            break
        if best.is_kept:
            most, _ = solved_under({name: bracket.most for name, bracket in brackets.items()})
            if not _is_better(most, best.plan, demand):
                break  # not even with all that was not seen to fail
    assert best is not None  # noqa: S101 - there is at least one round
    if begun or not best.is_kept or not late.classes:  # the caps of a plan in force have been through it
        return best
    return _of_other_pools(best, late, solve, attain, demand)


def _of_other_pools(
    best: Promise, late: "_Late", solve: Callable[[Snapshot], Plan], attain: Attainment, demand: float
) -> Promise:
    """Look for a better plan, of pools that were not seen to be late: `late` knows which were. A class that is late
    with one pool after the other is so for its utilisation, and has its cap of before again."""
    left, before = dict.fromkeys(late.classes, TRIES), best.snapshot.settings
    for _ in range(OTHER_POOLS):
        caps = {name: MOST - CLOSE if name in left else cap for name, cap in before.utilisation_caps.items()}
        of_templates = {**before.template_caps, **{name: own for name, own in late.caps.items() if name in left}}
        under = versioned(replace(best.snapshot, settings=before.capped(caps, of_templates)))
        plan = solve(under)
        if not _is_better(plan, best.plan, demand):
            break
        found = Promise(plan, under, attain(plan, under))
        if found.is_kept:
            return found
        late.note(found, utilisation(plan, under))
        missed = left.keys() & {name for name, each in found.attainment.items() if not each.is_kept}
        left = {name: tries - (name in missed) for name, tries in left.items() if tries > (name in missed)}
        if not missed or not left:
            break
    return best


class _Late:
    """Caps of the templates of pools that were late."""

    def __init__(self, known: Mapping[str, Mapping[str, float]]) -> None:
        self._caps = {name: dict(caps) for name, caps in known.items()}
        self.classes: set[str] = set()
        """Work classes that were late since."""

    @property
    def caps(self) -> dict[str, dict[str, float]]:
        return {name: dict(caps) for name, caps in self._caps.items()}

    def note(self, found: Promise, used: Mapping[str, float]) -> None:
        """Have the template that most of a late pool is of be used less than there. `used`: utilisation by class."""
        for name in (name for name, each in found.attainment.items() if not each.is_kept):
            self.classes.add(name)
            caps = self._caps.setdefault(name, {})
            own = (i for i in found.plan.instances if name in i.units_per_s)
            most = max(own, key=lambda i: (i.count * i.units_per_s[name], i.template_id), default=None)
            if most is not None:
                caps[most.template_id] = max(STEP * min(caps.get(most.template_id, MOST), used.get(name, 0.0)), LEAST)


class _Bracket:
    """A cap under which a class has kept its promise, and a utilisation at which it has not."""

    def __init__(self, cap: float, reach: float) -> None:
        """`reach`: how far from `cap` the limit is supposed to be, at most."""
        self.cap = cap
        self._reach = reach
        self._good = 0.0
        self._seen = 0.0, 0.0
        """Highest utilisation at which it was kept, and the share that was late there."""
        self._missed = min(cap + reach, MOST)
        self._is_supposed = self._missed < MOST
        """No miss was seen yet: the bracket's upper end is where one is supposed."""

    @property
    def is_closed(self) -> bool:
        return self._good > 0 and self._missed - self._good <= CLOSE

    @property
    def most(self) -> float:
        """The highest cap that is worth a look: nearer to one that was seen to fail nothing is looked for."""
        return max(self.cap, self._missed - CLOSE) if not self._is_supposed else MOST

    def pass_over(self) -> bool:
        """Move the cap up, past what makes no better plan. Return whether it moved."""
        if self._missed - self.cap <= CLOSE + ROUNDING:
            if not self._is_supposed:
                return False
            self._good = max(self._good, self.cap)
            self._widen()
        self._good = max(self._good, self.cap)
        self.cap = self._missed - CLOSE  # under lower caps no plan is better either
        return True

    def note(self, used: float, attained: Attained) -> None:
        """Move the cap by what was seen of a plan under it. A miss below what was good before counts for more: plans
        of one utilisation are of unlike instances."""
        if attained.is_kept:
            self._good = max(self._good, min(self.cap, self._missed))
            if used > self._seen[0]:
                self._seen = used, attained.share
            if self._is_supposed and self._missed - self._good < 1.5 * CLOSE:  # all but one last step was good
                self._widen()
        else:
            self._missed, self._is_supposed = min(self._missed, (used + self._limit(used, attained)) / 2), False
            # A cap that did not bind says nothing of the utilisations below it. Where even one that was kept is not
            # below, it is looked for anew, in long steps.
            self._good = min(self._good, self._seen[0])
            if self._good > self._missed - CLOSE:
                self._good, self._seen = 0.0, (0.0, 0.0)
        if self._good <= 0:
            lower = min(self.cap, self._missed)
            self.cap = max(STEP * lower, lower - self._reach, LEAST)
            self._reach *= 2
        elif self.is_closed:
            self.cap = self._good
        else:
            self.cap = self._missed - CLOSE if self._is_supposed else (self._good + self._missed) / 2

    def _limit(self, used: float, attained: Attained) -> float:
        """Return the utilisation at which what is late is likely to be as much as may be, when at `used` it was more:
        the share that is late grows about exponentially with utilisation. `used` where nothing was kept below."""
        seen, share = self._seen
        allowed, late = 1 - attained.percentile / 100, 1 - attained.share
        if not 0 < seen < used or late <= allowed:
            return used
        little = min(max(1 - share, LEAST_LATE), allowed)
        return seen + (used - seen) * math.log(allowed / little) / math.log(late / little)

    def _widen(self) -> None:
        """Suppose the limit farther up."""
        self._reach *= 2
        self._missed = min(self._good + self._reach, MOST)
        self._is_supposed = self._missed < MOST


def _rank(promise: Promise) -> tuple[float, float, float]:
    """Lower is better: to keep every promise, then to serve more, then to cost less. Where supply is short, what is
    served is served in time."""
    lacking = sum(max(each.percentile / 100 - each.share, 0.0) for each in promise.attainment.values())
    unmet, usd = _unmet_and_usd(promise.plan)
    return 0.0 if promise.is_kept else 1.0 + lacking, round(unmet, 9), usd


def _is_better(plan: Plan, than: Plan, demand: float) -> bool:
    """Whether `plan` serves more of `demand` (requests/s), or as much for less, by what is worth a look."""
    (unmet, usd), (other, other_usd) = _unmet_and_usd(plan), _unmet_and_usd(than)
    if abs(unmet - other) > WORTH * demand:
        return unmet < other
    return usd < other_usd * (1 - WORTH)


def _unmet_and_usd(plan: Plan) -> tuple[float, float]:
    return sum(plan.unmet.values()), plan.usd_per_hour + plan.init_usd


def utilisation(
    plan: Plan, snapshot: Snapshot, cap: Callable[[str, PlannedInstance], float] | None = None
) -> dict[str, float]:
    """Share of each class's certified capacity, or of what `cap` of it may be used, that the plan's flows use."""
    routes = {route.id: route for route in snapshot.routes}
    load: defaultdict[str, float] = defaultdict(float)
    capacity: defaultdict[str, float] = defaultdict(float)
    for flow in plan.flows:
        for leg in routes[flow.route].legs:
            load[leg.work_class] += flow.requests_per_s * leg.units_per_request
    for instance in plan.instances:
        for name, units_per_s in instance.units_per_s.items():
            share = 1.0 if cap is None else cap(name, instance)
            capacity[name] += share * units_per_s * instance.count
    return {name: load[name] / capacity[name] for name in load if capacity[name] > 0}
