"""Planning for what a budget allows: the ladder of `policies.degradation`, rung by rung, on a fleet's world."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from control.planning.world import World
from policies.budget import Allowance
from policies.degradation import Rung, Solve, Take, Tried, next_step
from templates_lib.values.offer import Market
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Survive

LOOSER_CAP = 0.95
"""Share of capacity that a plan of a looser class may use, at least: requests queue longer. Templates stay as they are
certified, so that what runs is still good when the budget allows more again."""

Solved = TypeVar("Solved")


@dataclass(frozen=True, slots=True)
class WithinBudget(Generic[Solved]):
    taken: Take
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
    while isinstance(step := next_step(allowed, in_force, rungs, tried), Solve):
        solutions[step.rung] = solve(given_up(world, step.rung, allowed))
        plan = plan_of(solutions[step.rung])
        tried.append(Tried(step.rung, plan.usd_per_hour, sum(plan.unmet.values())))
    return WithinBudget(step, solutions[step.rung])


def given_up(world: World, rung: Rung, allowed: Allowance) -> World:
    """`world` without what is given up on `rung` and on those before it."""
    policy = world.fleet.policy
    changes: dict[str, object] = {}
    if rung >= Rung.MORE_SPOT:
        changes["max_spot_share"] = 1.0
    if rung >= Rung.LOOSER_CLASS:
        changes |= {
            "utilisation_cap": max(policy.utilisation_cap, LOOSER_CAP),
            "survive": Survive.NOTHING,
            "max_zone_share": 1.0,
        }
    if rung >= Rung.SHED:
        own = math.inf if policy.max_usd_per_hour is None else policy.max_usd_per_hour
        changes["max_usd_per_hour"] = min(own, allowed.usd_per_hour)
    fleet = world.fleet.model_copy(update={"policy": policy.model_copy(update=changes)})
    return replace(world, fleet=fleet)


def _rungs(world: World, allowed: Allowance) -> tuple[Rung, ...]:
    if math.isinf(allowed.usd_per_hour):
        return (Rung.NOTHING,)
    spot = any(offer.market is Market.SPOT for offer in world.quotes.offers)
    limited = world.fleet.policy.max_spot_share < 1
    return tuple(rung for rung in Rung if rung is not Rung.MORE_SPOT or (spot and limited))
