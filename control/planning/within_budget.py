"""Planning for what a budget allows: the ladder of `policies.degradation`, rung by rung, on a fleet's world."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from control.planning.world import World
from policies.budget import Allowance
from policies.degradation import Rung, SolveRung, TakeRung, Tried, next_step
from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Settings, Survive

LOOSER_CAP = 0.95
"""Share of capacity that a plan of a looser class may use, at least: requests queue longer. Templates stay as they are
certified, so that what runs is still good when the budget allows more again."""

Solved = TypeVar("Solved")


@dataclass(frozen=True, slots=True)
class WithinBudget(Generic[Solved]):
    taken: TakeRung
    solved: Solved


def within_budget(
    world: World,
    allowed: Allowance,
    in_force: Rung,
    solve: Callable[[World], Solved],
    plan_of: Callable[[Solved], Plan],
) -> WithinBudget[Solved]:
    """The first plan, from what `world` asks for downwards, that costs no more than is allowed.

    `in_force`: what the fleet has given up so far. Each rung that is tried is one `solve`; without a budget there is
    one in all. Nothing is applied.
    """
    rungs = _rungs(world, allowed)
    tried: list[Tried] = []
    solutions: dict[Rung, Solved] = {}
    while isinstance(step := next_step(allowed, in_force, rungs, tried), SolveRung):
        solutions[step.rung] = solve(given_up(world, step.rung, allowed))
        plan = plan_of(solutions[step.rung])
        tried.append(Tried(step.rung, plan.usd_per_hour, sum(plan.unmet.values())))
    return WithinBudget(step, solutions[step.rung])


def given_up(world: World, rung: Rung, allowed: Allowance) -> World:
    """`world` without what is given up on `rung` and on those before it."""
    settings, margin = world.fleet.settings, world.fleet.step_time_margin
    if rung >= Rung.MORE_SPOT:
        settings = _with_more_spot(settings)
    if rung >= Rung.LOOSER_CLASS:
        settings, margin = _of_looser_class(settings), 0.0
    if rung >= Rung.SHED:
        settings = settings.spending_at_most(allowed.usd_per_hour)
    return replace(world, fleet=replace(world.fleet, settings=settings, step_time_margin=margin))


def _with_more_spot(settings: Settings) -> Settings:
    return replace(settings, guardrails=replace(settings.guardrails, max_spot_share=1.0))


def _of_looser_class(settings: Settings) -> Settings:
    cap, guardrails = max(settings.utilisation_cap, LOOSER_CAP), replace(settings.guardrails, max_zone_share=1.0)
    return replace(settings, utilisation_cap=cap, survive=Survive.NOTHING, guardrails=guardrails)


def _rungs(world: World, allowed: Allowance) -> tuple[Rung, ...]:
    if math.isinf(allowed.usd_per_hour):
        return (Rung.NOTHING,)
    spot = any(offer.market is Market.SPOT for offer in world.quotes.offers)
    limited = world.fleet.settings.guardrails.max_spot_share < 1
    return tuple(rung for rung in Rung if rung is not Rung.MORE_SPOT or (spot and limited))
