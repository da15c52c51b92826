"""What would help where a plan misses a promise in simulation, or where promises leave models without instances: the
nearest easier objective of a few that are tried, and what could be served without a promise."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from control.planning.objective_costs import ObjectiveCosts
from control.planning.objectives import Axis, Objective, models_of, now_of, three_digits
from control.planning.promise import Promise
from control.planning.recipe import Recipe
from control.planning.recording import versioned
from control.planning.report import SERVED
from control.planning.templates import UnservableError
from templates_lib.values.plan import Plan, Reason
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Phase

EASIER_PROMISE = "easier_promise"
"""Kind of these reasons."""
FACTORS = (1.1, 1.25, 1.6, 2.0, 4.0)
"""Of the objectives in force, tried in this order: each is a plan."""
STARVED = 0.5
"""Share of a model's demand that is unmet from which on its promise is suspected."""
AXES = {Phase.PREFILL: (Axis.TTFT,), Phase.DECODE: (Axis.TPOT,), Phase.AGGREGATED: (Axis.TTFT, Axis.TPOT)}
"""Objectives that a class of a phase has to keep."""


def easier_promises(costs: ObjectiveCosts, plan: Plan, begin: Callable[[], None]) -> tuple[Reason, ...]:
    """Reasons for people, with what the fleet costs then; empty where `plan` keeps and serves what it should, and where
    nothing that is tried helps. At most twice as many plans as `FACTORS` has values, and one; `begin` is called before
    the first one."""
    missed = missed_objectives(costs.recipe, plan)
    starved = starved_models(costs.recipe, plan, costs.snapshot)
    if not missed and not starved:
        return ()
    begin()
    # Caps that served nothing, or kept nothing, are no place to begin from.
    settings = costs.snapshot.settings.capped({})
    costs = replace(costs, snapshot=versioned(replace(costs.snapshot, settings=settings)))
    found = [_kept(costs, plan, missed)] if missed else []
    return tuple(each for each in (*found, *(_serving(costs, plan, starved) if starved else ())) if each is not None)


def missed_objectives(recipe: Recipe, plan: Plan) -> frozenset[Objective]:
    """Objectives of the classes that did not keep their promise when `plan` was simulated."""
    missed = {name for name, each in plan.attainment.items() if not each.is_kept}
    return frozenset(
        Objective(app, axis)
        for app, all_of in models_of(recipe).items()
        for served in all_of
        for phase in served.phases
        if served.class_id(phase) in missed
        for axis in AXES[phase]
    )


def starved_models(recipe: Recipe, plan: Plan, snapshot: Snapshot) -> tuple[str, ...]:
    """Apps that promise a percentile and of whose demand `plan` serves less than half."""
    asked = {each.key: each for each in snapshot.demand}

    def is_starved(names: frozenset[str]) -> bool:
        total = sum(each.requests_per_s for each in asked.values() if each.app in names)
        unmet = sum(rate for key, rate in plan.unmet.items() if key in asked and asked[key].app in names)
        return unmet > max(STARVED * total, SERVED)

    return tuple(
        app
        for app, all_of in models_of(recipe).items()
        if any(served.slo.queueing for served in all_of) and is_starved(frozenset(served.name for served in all_of))
    )


def _kept(costs: ObjectiveCosts, plan: Plan, missed: Iterable[Objective]) -> Reason | None:
    """The first of the eased objectives under which every promise is seen to be kept, and no less is served."""
    for factor in FACTORS:
        values = _eased(costs.recipe, missed, factor)
        found = _planned(costs, values)
        if found is not None and found.is_kept and _unmet(found.plan) <= _unmet(plan) + SERVED:
            cost = f"the fleet then costs {found.plan.usd_per_hour:,.2f} $/h"
            text = f"the nearest easier objective that was seen to be kept is {_changes(costs.recipe, values)}: {cost}"
            return Reason(EASIER_PROMISE, text, _subject(values), found.plan.usd_per_hour, verified=True)
    return None


def _serving(costs: ObjectiveCosts, plan: Plan, models: tuple[str, ...]) -> Iterator[Reason]:
    """What the models' own rule of throughput would serve of what is unmet, and the first easier objective under which
    at least half as much of it is."""
    try:
        free = costs.unpromised(models).plan
    except UnservableError:
        return
    more = _unmet(plan) - _unmet(free)
    if more <= SERVED:
        return  # nodes are missing, not time to wait
    names = ", ".join(models)
    text = (
        f"{names}: to keep what slo.keep promises, no more can be served with these nodes; with keep: throughput, "
        f"which promises nothing to requests that wait, {_served(more, free)}"
    )
    yield Reason(EASIER_PROMISE, text, names, free.usd_per_hour, verified=True)
    for axes in ((Axis.TTFT,), (Axis.TTFT, Axis.TPOT)):
        for factor in FACTORS:
            values = _eased(costs.recipe, (Objective(model, axis) for model in models for axis in axes), factor)
            found = _planned(costs, values)
            if found is not None and found.is_kept and _unmet(plan) - _unmet(found.plan) >= more / 2:
                served = _served(_unmet(plan) - _unmet(found.plan), found.plan)
                text = f"with an easier objective, {_changes(costs.recipe, values)}, {served}, and the promise is kept"
                yield Reason(EASIER_PROMISE, text, _subject(values), found.plan.usd_per_hour, verified=True)
                return


def _eased(recipe: Recipe, objectives: Iterable[Objective], factor: float) -> dict[Objective, float]:
    ordered = sorted(objectives, key=lambda each: each.text)
    return {each: three_digits(factor * now_of(recipe, each)) for each in ordered}


def _planned(costs: ObjectiveCosts, values: Mapping[Objective, float]) -> Promise | None:
    try:
        return costs.planned(values)
    except UnservableError:
        return None


def _changes(recipe: Recipe, values: Mapping[Objective, float]) -> str:
    return ", ".join(each.change(now_of(recipe, each), value) for each, value in values.items())


def _subject(values: Mapping[Objective, float]) -> str:
    return ", ".join(dict.fromkeys(each.model for each in values))


def _served(more: float, plan: Plan) -> str:
    unmet = _unmet(plan)
    what = f"{more:.4g} requests/s more are served" if unmet > SERVED else "all demand is met"
    return f"{what}, for {plan.usd_per_hour:,.2f} $/h"


def _unmet(plan: Plan) -> float:
    return sum(rate for rate in plan.unmet.values() if rate > SERVED)
