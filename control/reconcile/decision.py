"""The decision about a new plan: pure."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from control.lifecycle.fleet import FleetMode, FleetTarget
from templates_lib.values.plan import Plan


class Verdict(StrEnum):
    KEEP = "keep"
    """The plan wants what the fleet's plan in force wants already, or the proposal that waits already."""
    PROPOSE = "propose"
    """The plan waits for somebody's approval."""
    ACCEPT = "accept"


@dataclass(frozen=True, slots=True)
class PlanDecision:
    verdict: Verdict
    reason: str


def decide(mode: FleetMode, target: FleetTarget, held: Plan | None, waiting: Plan | None, new: Plan) -> PlanDecision:
    """Decide on a new plan. `held`: the plan in force; `waiting`: the one that waits for approval; None: there is none,
    or it was thrown away."""
    if held is not None and same(held, new):
        return PlanDecision(Verdict.KEEP, "it equals the plan in force")
    if mode is FleetMode.AUTO:
        return PlanDecision(Verdict.ACCEPT, _difference(held, new))
    if waiting is not None and same(waiting, new):
        return PlanDecision(Verdict.KEEP, "it waits for approval already" if target.proposed else "")
    return PlanDecision(Verdict.PROPOSE, _difference(held, new))


def same(one: Plan, other: Plan) -> bool:
    """Tell whether two plans want the same instances."""
    return _counts(one) == _counts(other)


def _counts(plan: Plan) -> Counter[tuple[str, str, str]]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for planned in plan.instances:
        if planned.count:
            counts[planned.template_id, planned.zone, planned.market] += planned.count
    return counts


def _difference(held: Plan | None, new: Plan) -> str:
    if held is None:
        return f"first plan: {new.usd_per_hour:.2f} $/h"
    more, fewer = _counts(new) - _counts(held), _counts(held) - _counts(new)
    return (
        f"{held.usd_per_hour:.2f} -> {new.usd_per_hour:.2f} $/h; {more.total()} instances more, {fewer.total()} fewer"
    )
