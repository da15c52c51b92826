"""Sensitivity to how often a fleet is planned again, and over how long a start is written off (Coral, section 6.7).

54 minutes of the traces. A plan serves the busiest three minutes of its interval, so that all rows serve the same: who
plans rarely rents for peaks that are over. Starts are charged as what they take, the start-up time of every new node;
what they are written off over only tells the planner how much they weigh.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import market, traffic_factors, with_traffic
from bench.evaluation.methods import checked_plan
from bench.evaluation.table import Table
from bench.running_fleet import carried_out
from bench.scenarios import SetUp
from control.planning.recording import versioned
from templates_lib.values.plan import Plan

WINDOW_S = 180.0
WINDOWS = 18
CASES = ((6, 60), (6, 6), (6, 18), (6, 54), (6, 1_000), (18, 18), (18, 60), (54, 54))
"""(minutes between plans, minutes over which the planner writes off a start); the paper's is the first."""


@dataclass(frozen=True, slots=True)
class _Hour:
    rent_usd_per_hour: float
    starts_usd_per_hour: float
    started_nodes: int
    """After the first plan."""


def run(campaign: Campaign, folder: Path | None) -> bool:
    """Nothing to miss: it only shows."""
    for setup in campaign.setups:
        print(f"Section 6.7, {setup}: 54 minutes at other intervals, first start of the fleet left out")
        columns = ("planned every", "starts over", "rent, $/h", "starts, $/h", "together", "nodes started")
        table = Table(f"interval-{setup}", columns)
        for every, over in CASES:
            hour = _run(campaign.set_up(setup), every, over)
            together = hour.rent_usd_per_hour + hour.starts_usd_per_hour
            table.add(
                f"{every} min", f"{over} min", f"{hour.rent_usd_per_hour:.2f}", f"{hour.starts_usd_per_hour:.2f}",
                f"{together:.2f}", f"{hour.started_nodes}",
            )  # fmt: skip
        table.show(folder)
    return True


def _run(made: SetUp, every_minutes: int, over_minutes: int) -> _Hour:
    plans = list(_plans(made, every_minutes, over_minutes))
    hours = every_minutes / 60
    # What an interval writes off, taken back to dollars: start-up time x price of what is new.
    starts = sum(plan.init_usd * over_minutes / 60 for plan in plans[1:])
    return _Hour(
        sum(plan.rent_usd_per_hour for plan in plans) / len(plans),
        starts / (len(plans) * hours),
        sum((i.count - i.running) * sum(i.nodes.values()) for plan in plans[1:] for i in plan.instances),
    )


def _plans(made: SetUp, every_minutes: int, over_minutes: int) -> Iterator[Plan]:
    base = market(made, "balanced")
    base = replace(base, settings=replace(base.settings, adjustment_interval_minutes=float(over_minutes)))
    factors = traffic_factors(made, WINDOWS, WINDOW_S)
    step = round(every_minutes * 60 / WINDOW_S)
    before: Plan | None = None
    for first in range(0, WINDOWS, step):
        now = with_traffic(base, {app: max(rates[first : first + step]) for app, rates in factors.items()})
        before = checked_plan(
            "medley", versioned(now if before is None else carried_out(now, before)), made.templates.library
        )
        yield before
