"""Reasons of a plan that need no other solve."""

from collections.abc import Iterator

from control.explain.demand_price import demand_prices
from control.explain.limits import limit_texts, limits
from policies.churn import ADDED_UP, CHURN
from templates_lib.values.plan import Plan, Reason
from templates_lib.values.snapshot import Snapshot

_OF_ITS_MAKERS = frozenset({"replicas", CHURN, ADDED_UP})
"""Kinds of reasons that planner and churn guard gave it."""


def reasons(plan: Plan, snapshot: Snapshot) -> tuple[Reason, ...]:
    """List what binds, then what drives the cost. Figures are duals, so about."""
    return tuple(_reasons(plan, snapshot))


def _reasons(plan: Plan, snapshot: Snapshot) -> Iterator[Reason]:
    if plan.statistics.get("timed_out"):
        seconds = snapshot.settings.limits.wall_clock_s
        yield Reason(
            "wall_clock", f"solver.wall_clock_s = {seconds:g} cut the search short: another run may give another plan"
        )
    for key, rate in plan.unmet.items():
        yield Reason("unmet", f"{key}: {rate:.4g} requests/s find no capacity", key)
    yield from (reason for reason in plan.reasons if reason.kind in _OF_ITS_MAKERS)
    binding = limits(plan, snapshot)
    for limit in binding:
        saving = "" if limit.usd_per_hour is None else f"; one more would save about {limit.usd_per_hour:,.2f} $/h"
        yield Reason(limit.kind, limit.text + saving, limit.subject, limit.usd_per_hour)
    if not binding:
        yield Reason("limits", limit_texts(binding, plan)[0])
    for key, usd in demand_prices(plan, snapshot).items():
        yield Reason("demand", f"one more request/s of {key} would cost about {usd:,.2f} $/h", key, usd)
