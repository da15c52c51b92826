"""Plans that keep a percentile of the objectives when requests queue: plan, simulate, correct, plan again.

What a set of instances sustains depends on how many there are and how unlike they are, so no certificate of a lone one
tells. Each work class has a utilisation cap: a plan is solved under the caps and simulated at its planned rate, and the
cap of a class is moved towards the highest utilisation at which it was seen to keep its percentile. Caps are bracketed
from both sides, so that the loop ends; it depends on the snapshot, the library and the seed alone. A snapshot that has
caps, those of the plan in force, is begun from them, with narrow brackets around them: they are right, or nearly so.

A class that is late may be so for the pool that it had: one of many stages where two instances would have done, unlike
ones of which the slow are too slow. So those classes are planned once more at higher caps, and then at a high one, at
which the templates of the pools that were late have caps of their own; what is found then is kept where it keeps every
promise for less. That is done where caps are found for the first time.

Models queue apart, so that one may have kept its promises at little cost in a plan that others were late in. Whenever
each model has done so in some plan, one more is solved under the caps of all those.

Where answers of the fleet that runs kept less than was promised, its snapshot has corrections: the caps are found
without them, as the simulator knows nothing of what went wrong, and the plan is then solved once more under the caps
times these factors. So it is with the margins of step times that may be off: the simulator takes them for true.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from control.planning.cap_bracket import CLOSE, LEAST, MOST, NEAR, STEP, Bracket
from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.planning.templates import Templates
from templates_lib.values.plan import Attained, Plan, PlannedInstance
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot

FIRST_CAPS = {True: 0.65, False: 1.0}
"""Caps to begin with, of classes that queue before a first token, and of others, whose templates are certified with
waiting already."""
ROUNDS = 16
"""Plans that are simulated, at most."""
HIGHER = tuple(permille / 1000 for permille in range(950, 699, -25))
"""Caps of classes that were late under which other pools are looked for, one after the other."""
OTHER_POOLS, TRIES = 6, 2
"""Plans of pools without those that were late that are simulated, at most, and how many of them for a class that is
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
        name: Bracket(begun[name], NEAR) if name in begun else Bracket(FIRST_CAPS[waits], MOST)
        for name, waits in attain.classes.items()
    }
    best: Promise | None = None
    demand = sum(each.requests_per_s for each in snapshot.demand)
    tried: list[dict[str, float]] = []
    solved: dict[tuple[float, ...], tuple[Plan, Snapshot]] = {}
    late, kept = _Late(snapshot.settings.template_caps), _Kept(snapshot, attain.classes)
    simulated = 0

    def solved_under(caps: Mapping[str, float]) -> tuple[Plan, Snapshot]:
        """The highest caps that were not seen to fail are often those of the round before."""
        key = tuple(caps[name] for name in brackets)
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
        kept.note(found)
        best = _combined(found if best is None else min(best, found, key=_rank), kept, solve, attain, demand)
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
    return _of_other_pools(best, late, kept, solve, attain, demand)


def _combined(
    best: Promise, kept: "_Kept", solve: Callable[[Snapshot], Plan], attain: Attainment, demand: float
) -> Promise:
    """Return the plan of the pools that `kept` their promises at least cost, or `best` where that is no better."""
    settings = kept.untried(best.snapshot.settings)
    if settings is None:
        return best
    under = versioned(replace(best.snapshot, settings=settings))
    plan = solve(under)
    if best.is_kept and not _is_better(plan, best.plan, demand):
        return best
    found = Promise(plan, under, attain(plan, under))
    kept.note(found)
    return min(best, found, key=_rank)


def _of_other_pools(
    best: Promise,
    late: "_Late",
    kept: "_Kept",
    solve: Callable[[Snapshot], Plan],
    attain: Attainment,
    demand: float,
) -> Promise:
    """Look for a better plan, of other pools than those that were late.

    Pools of higher caps may keep what those of lower ones did not, as they are of other templates. After that, those of
    which most of a late pool was are used less: `late` knows them. A class that is late with one pool after the other
    is so for its utilisation, and has its cap of before again."""
    for cap in HIGHER:
        before = best.snapshot.settings
        caps = {n: max(cap, own) if n in late.classes else own for n, own in before.utilisation_caps.items()}
        under = versioned(replace(best.snapshot, settings=before.capped(caps, before.template_caps)))
        plan = solve(under)
        if not _is_better(plan, best.plan, demand):
            break
        found = Promise(plan, under, attain(plan, under))
        kept.note(found)
        best = _combined(min(best, found, key=_rank), kept, solve, attain, demand)
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
        kept.note(found)
        best = _combined(best, kept, solve, attain, demand)
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


class _Kept:
    """Of each model the caps under which it kept its promises at the least cost. Models that share a work class count
    as one."""

    def __init__(self, snapshot: Snapshot, classes: Collection[str]) -> None:
        self._models: list[tuple[set[str], set[str]]] = []
        """Apps of each, and their work classes that are promised something."""
        for route in snapshot.routes:
            apps, own = {route.app}, {leg.work_class for leg in route.legs} & set(classes)
            for each in [each for each in self._models if not (each[0].isdisjoint(apps) and each[1].isdisjoint(own))]:
                self._models.remove(each)
                apps, own = apps | each[0], own | each[1]
            self._models.append((apps, own))
        self._demands = {each.key: each.app for each in snapshot.demand}
        self._routes = {route.id: route.app for route in snapshot.routes}
        self._least: dict[int, tuple[tuple[float, float], Settings]] = {}
        self._tried: list[Settings] = []

    def note(self, found: Promise) -> None:
        self._tried.append(found.snapshot.settings)
        for index, (apps, classes) in enumerate(self._models):
            if all(found.attainment[name].is_kept for name in classes & found.attainment.keys()):
                cost = self._cost(found.plan, apps, classes)
                if index not in self._least or cost < self._least[index][0]:
                    self._least[index] = cost, found.snapshot.settings

    def untried(self, settings: Settings) -> Settings | None:
        """Return `settings` with those caps, unless they were given out or seen before, or a model kept nothing yet."""
        if len(self._least) < len(self._models):
            return None
        caps, of_templates = dict(settings.utilisation_caps), dict(settings.template_caps)
        for index, (_, own) in self._least.items():
            for name in self._models[index][1]:
                caps[name] = own.utilisation_caps[name]
                of_templates.pop(name, None)
                if name in own.template_caps:
                    of_templates[name] = own.template_caps[name]
        combined = settings.capped(caps, of_templates)
        if combined in self._tried:
            return None
        self._tried.append(combined)
        return combined

    def _cost(self, plan: Plan, apps: set[str], classes: set[str]) -> tuple[float, float]:
        """Demand that is not served (requests/s), then rent and traffic ($/h)."""
        unmet = sum(lost for key, lost in plan.unmet.items() if self._demands.get(key) in apps)
        rent = sum(each.usd_per_hour for each in plan.instances if not classes.isdisjoint(each.units_per_s))
        traffic = sum(flow.traffic_usd_per_hour for flow in plan.flows if self._routes[flow.route] in apps)
        return round(unmet, 9), round(rent + traffic, 9)


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
