"""The nearest objectives that could be kept where no node keeps those of a spec, and what the fleet costs with them."""

from control.planning.objective_costs import ObjectiveCosts
from control.planning.objectives import Axis, Objective, models_of
from control.planning.promise import Promise
from control.planning.recipe import Recipe
from control.planning.report import SERVED
from control.planning.session import PlanningSession
from control.planning.templates import UnservableError, build_templates
from control.planning.unservable import lacking, nearest_to
from control.planning.world import World
from templates_lib.values.work import Phase

TRIED = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0)
"""Of what the fastest nodes need: what keeps a request that is alone may leave a promise no time to wait."""


def nearest_kept(session: PlanningSession, world: World, now: str) -> str:
    """A sentence for people; empty where no latency objective is the reason, or none that is tried can be kept. At most
    as many plans as `TRIED` has values."""
    recipe = world.sources
    needed = _needed(session, world, recipe)
    if not needed:
        return ""
    library = session.store.load(build_templates(recipe, session.store, session.progress))
    snapshot = world.snapshot(now, library)
    costs = ObjectiveCosts(session, recipe, snapshot, library)
    for factor in TRIED:
        values = {each: _rounded_up(factor * least) for each, (_, least) in needed.items()}
        try:
            found = costs.planned(values)
        except UnservableError:
            continue
        if found.is_kept and found.plan.instances:  # what serves nothing keeps everything
            return _said({each: (before, values[each]) for each, (before, _) in needed.items()}, found)
    return ""


def _needed(session: PlanningSession, world: World, recipe: Recipe) -> dict[Objective, tuple[float, float]]:
    """Objective → (milliseconds in force, what the fastest nodes need), of those that none keeps."""
    library = session.store.load(build_templates(recipe, session.store, session.progress))
    app_of = {served.name: app for app, all_of in models_of(recipe).items() for served in all_of}
    needed: dict[Objective, tuple[float, float]] = {}
    for served, phase in lacking(world.recipe, library):
        miss = nearest_to(world.recipe, served, phase)
        if miss is None:
            return {}
        axis = Axis.TTFT if phase is Phase.PREFILL else Axis.TPOT
        objective, before = Objective(app_of[served.name], axis), axis.of(served.slo)
        _, least = needed.get(objective, (before, 0.0))
        needed[objective] = before, max(least, before + miss.short_ms)
    return needed


def _said(changes: dict[Objective, tuple[float, float]], found: Promise) -> str:
    parts = (
        f"{each.change(before, after)} (by {each.axis.text(after - before)})"
        for each, (before, after) in changes.items()
    )
    unmet = sum(rate for rate in found.plan.unmet.values() if rate > SERVED)
    short = f", and leaves {unmet:.4g} requests/s unserved for lack of supply" if unmet else ""
    cost = f"the fleet then costs {found.plan.usd_per_hour:,.2f} $/h{short}"
    return f"the nearest that could be kept is {', '.join(parts)}: {cost}"


def _rounded_up(value: float) -> float:
    return float(f"{1.005 * value:.3g}")
