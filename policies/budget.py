"""Dollars an hour that a fleet may spend, from budgets of its own and of its project."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

BURST = 1.5
"""Factor by which spending may exceed the even pace of a month's budget: demand has peaks, and a pace that forbids them
sheds load by day and has money left by night. What is spent above the pace lowers the pace of the rest, so that a month
that is always spent at the limit has R (h / h_0)^1.5 of its money left with h of its h_0 hours: never less than
nothing."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits; None: none."""

    usd_per_hour: float | None = None
    usd_per_month: float | None = None
    """Dollars of a calendar month, in UTC."""
    floor_usd_per_hour: float = 0.0
    """Granted whatever was spent, so that a month whose money is gone does not end everything."""

    def __post_init__(self) -> None:
        given = [x for x in (self.usd_per_hour, self.usd_per_month) if x is not None]
        if not given:
            raise ValueError("a budget limits dollars per hour, per month, or both")
        if not all(math.isfinite(x) and x > 0 for x in given):
            raise ValueError("a budget is above 0 and finite: to stop a fleet, end it")
        if not (math.isfinite(self.floor_usd_per_hour) and self.floor_usd_per_hour >= 0):
            raise ValueError("the floor of a budget is finite and at least 0")
        if self.usd_per_hour is not None and self.floor_usd_per_hour > self.usd_per_hour:
            raise ValueError("the floor of a budget is not above its dollars per hour")

    @property
    def given(self) -> dict[str, float]:
        """Return its limits by name: without those that it does not set, and without a floor of 0."""
        named = {
            "usd_per_hour": self.usd_per_hour,
            "usd_per_month": self.usd_per_month,
            "floor_usd_per_hour": self.floor_usd_per_hour,
        }
        return {name: limit for name, limit in named.items() if limit}


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget and what has become of it."""

    name: str
    """Whose it is, for people: `fleet chat`, `project search`."""
    budget: Budget
    month_usd: float
    """Spent this month, by all that the budget is for."""
    hours_left: float
    """Hours left of this month."""
    others_usd_per_hour: float = 0.0
    """Dollars an hour that all other fleets of the budget spend now."""


@dataclass(frozen=True, slots=True)
class Allowance:
    usd_per_hour: float
    """Infinite without a budget."""
    reason: str = ""


def allowance(states: Iterable[BudgetState]) -> Allowance:
    """The least of what the budgets leave to one fleet, and which one it is."""
    return min((_left(state) for state in states), key=lambda each: each.usd_per_hour, default=Allowance(math.inf))


def _left(state: BudgetState) -> Allowance:
    budget, limits = state.budget, []
    if budget.usd_per_hour is not None:
        limits.append(Allowance(budget.usd_per_hour, f"{budget.usd_per_hour:,.2f} $/h is the budget of {state.name}"))
    if budget.usd_per_month is not None:
        remaining = max(0.0, budget.usd_per_month - state.month_usd)
        # In the month's last hour the pace is that of an hour, or it would end in a burst.
        pace = BURST * remaining / max(1.0, state.hours_left)
        spent = f"{state.month_usd:,.2f} of {budget.usd_per_month:,.2f} $ of this month are spent"
        limits.append(Allowance(pace, f"{pace:,.2f} $/h is what the budget of {state.name} leaves: {spent}"))
    least = min(limits, key=lambda each: each.usd_per_hour)
    own = max(least.usd_per_hour - state.others_usd_per_hour, budget.floor_usd_per_hour, 0.0)
    shared = f", {state.others_usd_per_hour:,.2f} $/h of it with others" if state.others_usd_per_hour else ""
    return Allowance(own, f"{least.reason}{shared}")
