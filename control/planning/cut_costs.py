"""Costs of a fleet with the prompts of a model cut in two bands by length: planned again for each cut, with the same
objectives, demand, prices and supply."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from control.planning.objective_costs import CENT, ObjectiveCosts, rank_of
from control.planning.objectives import models_of
from control.planning.promise import WORTH, Promise
from control.planning.prompt_cuts import PERCENTS, PromptCut, cuts_of, in_force
from control.planning.recipe import Recipe
from control.planning.report import unmet_share
from control.planning.templates import UnservableError
from templates_lib.values.plan import Plan

FEW: tuple[float, ...] = (80.0,)
"""Percents of the requests where `better_cuts` looks, beside the cut that divides the work evenly."""

LITTLE = 1e-6
"""Share of the demand that is no difference."""

SaidCut = Callable[[str, "CutPoint", int, int], None]
"""Hears of every plan: the model, what it costs, how many were made so far, of how many."""


@dataclass(frozen=True, slots=True)
class CutPoint:
    """The fleet with one cut."""

    value: int
    """Tokens: the longest prompt of the shorter band; 0: no cut."""
    chosen: str
    """What is below the cut, for people; empty for no cut, and for one in force that nothing else chose."""
    long_share: float
    """Share of the requests above the cut, 0 to 1."""
    long_work: float
    """Share of the prompt tokens above the cut, 0 to 1."""
    usd_per_hour: float | None
    """Rent and traffic of the whole fleet; None: no template keeps the objectives of a band."""
    unmet_share: float = 0.0
    """Share of all requests that the plan does not serve, 0 to 1."""
    is_kept: bool = True
    """Whether all that is promised was kept in simulation: the percentile of each band."""
    problem: str = ""
    """Reason why there is no plan."""


@dataclass(frozen=True, slots=True)
class CutCurve:
    """What the fleet costs against the cut of one of its models."""

    model: str
    now: int
    """The cut in force; 0: none."""
    points: tuple[CutPoint, ...]
    """By length, no cut first, that in force included."""
    cheapest: int
    """The cut to write into the spec; that in force, where no other is cheaper by what is worth a change."""
    saves_usd_per_hour: float
    """Of the whole fleet, against the cut in force; 0 where that stays."""
    axis: str = "bands"
    unit: str = "tokens"


@dataclass(frozen=True, slots=True)
class BetterCut:
    """A cut that saves money with the same objectives, serves more, or keeps what is not kept without; 0 tokens: to cut
    no more."""

    model: str
    now: int
    then: int
    chosen: str
    usd_per_hour: float
    """Saved by the whole fleet; below 0 where it serves or keeps more for more."""
    share: float
    """Share of its cost that is saved."""
    more_served: float
    """Share of all requests that is served beside what is now."""

    @property
    def text(self) -> str:
        below = f", {self.chosen} below" if self.chosen else ""
        before, after = (line_of(each) if each else "no cut" for each in (self.now, self.then))
        change = f"{self.model}: {before} -> {after}{below},"
        if self.more_served > LITTLE:
            cost = f"for {abs(self.usd_per_hour):,.2f} $/h {'less' if self.usd_per_hour > 0 else 'more'}"
            return f"{change} serves {self.more_served:.1%} more of the demand, {cost}"
        if self.usd_per_hour > 0:
            return f"{change} saves {self.usd_per_hour:,.2f} $/h ({self.share:.1%})"
        return f"{change} keeps what the plan in force misses, for {-self.usd_per_hour:,.2f} $/h more"


def line_of(max_prompt_tokens: int) -> str:
    """Return the line of the spec, under the model."""
    return f"slo.max_prompt_tokens: {max_prompt_tokens}"


def cut_curve(
    costs: ObjectiveCosts,
    plan: Plan,
    model: str,
    percents: Iterable[float] = PERCENTS,
    said: SaidCut | None = None,
) -> CutCurve:
    """Find what the fleet costs with no cut, with that in force, and with those that `cuts_of` chooses. `plan`: that in
    force. Raises ValueError as `cuts_of`."""
    cuts, now = cuts_of(costs.recipe, model, percents), in_force(costs.recipe, model)
    tried = Promise(plan, costs.snapshot, plan.attainment)
    points, best, cheapest = list[CutPoint](), tried, now
    for cut in cuts:
        found, problem = (tried, "") if cut.max_prompt_tokens == now else _found(costs, model, cut)
        points.append(_point(cut, found, problem))
        if found is not None and rank_of(found) < rank_of(best):
            best, cheapest = found, cut.max_prompt_tokens
        if said is not None and found is not tried:
            said(model, points[-1], sum(point.value != now for point in points), len(cuts) - 1)
    saved = plan.usd_per_hour - best.plan.usd_per_hour
    if rank_of(best)[:2] == rank_of(tried)[:2] and saved < max(CENT, WORTH * plan.usd_per_hour):
        cheapest, saved = now, 0.0  # plans differ by as much as the search for caps happens to end elsewhere
    return CutCurve(model, now, tuple(points), cheapest, saved)


def better_cuts(costs: ObjectiveCosts, plan: Plan, said: SaidCut | None = None) -> tuple[BetterCut, ...]:
    """Look at few cuts of every model whose prompts can be cut: the best of each, where it is better than what is in
    force, what saves the most first."""
    found: list[BetterCut] = []
    for model in cuttable(costs.recipe):
        curve = cut_curve(costs, plan, model, FEW, said)
        if curve.cheapest != curve.now:
            points = {point.value: point for point in curve.points}
            then, saved = points[curve.cheapest], curve.saves_usd_per_hour
            more = points[curve.now].unmet_share - then.unmet_share
            share = saved / plan.usd_per_hour if plan.usd_per_hour else 0.0
            found.append(BetterCut(model, curve.now, then.value, then.chosen, saved, share, more))
    return tuple(sorted(found, key=lambda each: -each.usd_per_hour))


def cuttable(recipe: Recipe) -> tuple[str, ...]:
    """Return the models whose prompts `cut_curve` may cut."""

    def can(model: str) -> bool:
        try:
            return len(cuts_of(recipe, model)) > 1
        except ValueError:
            return False

    return tuple(filter(can, models_of(recipe)))


def _found(costs: ObjectiveCosts, model: str, cut: PromptCut) -> tuple[Promise | None, str]:
    try:
        return costs.cut(model, cut.max_prompt_tokens), ""
    except UnservableError as error:
        return None, str(error)


def _point(cut: PromptCut, found: Promise | None, problem: str) -> CutPoint:
    whose = cut.max_prompt_tokens, cut.chosen, cut.long_share, cut.long_work
    if found is None:
        return CutPoint(*whose, None, 1.0, False, problem)
    return CutPoint(*whose, found.plan.usd_per_hour, unmet_share(found.plan, found.snapshot), found.is_kept)
