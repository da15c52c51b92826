"""What the churn guard may do to a plan, in random fleets with budgets, quotas, spot shares and lost offers."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.running_fleet import carried_out
from control.checker import check
from control.planner import solve
from policies.churn import Payback, guard
from templates_lib.plan import Plan
from templates_lib.snapshot import Snapshot
from tests.properties.random_fleets import random_fleet

PAYBACK = Payback()
seeds = st.integers(0, 10_000)


def counts(plan: Plan) -> Counter[tuple[str, str, str]]:
    return Counter({(i.template_id, i.zone, i.market): i.count for i in plan.instances})


def running(snapshot: Snapshot) -> Counter[tuple[str, str, str]]:
    return Counter((i.template_id, i.zone, i.market) for i in snapshot.staying())


def moves(plan: Plan, snapshot: Snapshot) -> int:
    there, wanted = running(snapshot), counts(plan)
    return (wanted - there).total() + (there - wanted).total()


def cost(plan: Plan, snapshot: Snapshot) -> float:
    """$ per hour over the horizon, moves included."""
    new = sum(i.usd_per_hour / i.count * max(i.count - i.running, 0) for i in plan.instances)
    return plan.usd_per_hour + plan.spot_risk_usd_per_hour + PAYBACK.factor(snapshot.settings.startup_minutes) * new


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_a_guarded_plan_is_sound_serves_as_much_and_is_no_dearer_over_the_horizon(seed: int) -> None:
    fleet = random_fleet(seed)
    new = solve(fleet.snapshot, fleet.library)
    guarded = guard(fleet.snapshot, fleet.library, new, solve, PAYBACK)
    assert not check(guarded, fleet.snapshot)
    assert sum(guarded.unmet.values()) <= sum(new.unmet.values()) + 1e-5
    gap = 1 + fleet.snapshot.settings.limits.gap
    assert cost(guarded, fleet.snapshot) <= cost(new, fleet.snapshot) * gap + 1e-9
    if counts(guarded) != counts(new):
        assert any(reason.kind == "churn" for reason in guarded.reasons) or moves(guarded, fleet.snapshot) >= moves(
            new, fleet.snapshot
        )


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_in_a_market_that_does_not_change_nothing_moves_a_second_time(seed: int) -> None:
    fleet = random_fleet(seed)
    known = tuple(replace(o, available_count=o.available_count or 4) for o in fleet.snapshot.offers)
    snapshot = replace(fleet.snapshot, offers=known, instances=())
    first = carried_out(snapshot, solve(snapshot, fleet.library))
    if not first.instances:
        return
    again = guard(first, fleet.library, solve(first, fleet.library), solve, PAYBACK)
    assert counts(again) == running(first)


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_a_fleet_that_was_moved_as_much_as_it_may_begins_only_what_is_needed(seed: int) -> None:
    fleet = random_fleet(seed)
    if not fleet.snapshot.instances:
        return
    new = solve(fleet.snapshot, fleet.library)
    sold_out = tuple(replace(offer, available_count=0) for offer in fleet.snapshot.offers)
    there = np.array([name.encode() for name, _, _ in running(fleet.snapshot)], dtype=fleet.library.ids.dtype)
    still = solve(replace(fleet.snapshot, offers=sold_out), fleet.library.select(np.isin(fleet.library.ids, there)))
    guarded = guard(fleet.snapshot, fleet.library, new, solve, replace(PAYBACK, moves_left=0))
    assert not check(guarded, fleet.snapshot)
    assert sum(guarded.unmet.values()) <= sum(new.unmet.values()) + 1e-5
    if not (counts(still) - running(fleet.snapshot)) and not still.unmet:
        assert not counts(guarded) - running(fleet.snapshot)
