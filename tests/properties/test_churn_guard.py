"""What the churn guard may do to a plan, in random fleets with budgets, quotas, spot shares and lost offers."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.running_fleet import carried_out
from control.allocator import solve
from control.checker import check
from policies.churn import Payback, guard
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
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


def finds_room(plan: Plan, snapshot: Snapshot) -> bool:
    """Whether nodes of what is new can be had beside all that are held."""
    more: Counter[tuple[str, str, str]] = Counter()
    for offer in snapshot.offers:
        more[offer.node_config, offer.zone_id, offer.market] += snapshot.more_nodes(offer)
    new: Counter[tuple[str, str, str]] = Counter()
    for i in plan.instances:
        for config, nodes in i.nodes.items():
            new[config, i.zone, i.market] += nodes * max(i.count - i.running, 0)
    return all(count <= more[cell] for cell, count in new.items())


def short_of_replicas(plan: Plan) -> set[str]:
    return {reason.text for reason in plan.reasons if reason.kind == "replicas"}


@dataclass
class Noted:
    """The solver, and the rent of what is new in each of its plans: it knows which offers that is of, while a row of a
    plan says what all of its instances cost together, those that run on dearer offers included."""

    new_usd_per_hour: dict[frozenset[object], float] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot, library: Library) -> Plan:
        plan = solve(snapshot, library)
        self.new_usd_per_hour[frozenset(counts(plan).items())] = plan.init_usd / snapshot.settings.init_factor
        return plan

    def cost(self, plan: Plan, snapshot: Snapshot) -> float | None:
        """$ per hour over the horizon, moves included; None: of no plan that was solved."""
        new = self.new_usd_per_hour.get(frozenset(counts(plan).items()))
        if new is None:
            return None
        return plan.usd_per_hour + plan.spot_risk_usd_per_hour + PAYBACK.weighed(snapshot.settings).init_factor * new


@settings(deadline=None, max_examples=12)
@given(seeds)
@example(1646)  # to stand still was to mix anew what is held
def test_a_guarded_plan_is_sound_serves_as_much_breaks_nothing_to_save_and_is_no_dearer(seed: int) -> None:
    fleet, noted = random_fleet(seed), Noted()
    new = noted(fleet.snapshot, fleet.library)
    usd = noted.cost(new, fleet.snapshot)
    guarded = guard(fleet.snapshot, fleet.library, new, noted, PAYBACK)
    assert not check(guarded, fleet.snapshot)
    assert sum(guarded.unmet.values()) <= sum(new.unmet.values()) + 1e-5
    assert short_of_replicas(guarded) <= short_of_replicas(new)
    gap = 1 + fleet.snapshot.settings.limits.gap
    if finds_room(new, fleet.snapshot):
        guarded_usd = noted.cost(guarded, fleet.snapshot)
        if guarded_usd is None:  # stepping stones come on top of what was solved
            assert any("kept for a while" in reason.text for reason in guarded.reasons)
        else:
            assert usd is not None
            assert guarded_usd <= usd * gap + 1e-9
    began = noted.new_usd_per_hour.get(frozenset(counts(guarded).items()))
    if began is not None:  # as the solver itself reckons it, so that gap and bound speak of one objective
        assert guarded.init_usd == pytest.approx(fleet.snapshot.settings.init_factor * began)
    unbroken = replace(fleet.snapshot, settings=replace(fleet.snapshot.settings, beside_running=True))
    beside = solve(unbroken, fleet.library)
    assert finds_room(beside, fleet.snapshot)
    if fleet.snapshot.instances and sum(beside.unmet.values()) <= sum(new.unmet.values()):
        assert finds_room(guarded, fleet.snapshot)
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
@example(214)  # two plans of one price, but for rounding
def test_what_was_left_out_for_long_enough_is_carried_out_and_serves_as_much(seed: int) -> None:
    fleet = random_fleet(seed)
    new = solve(fleet.snapshot, fleet.library)
    held = guard(fleet.snapshot, fleet.library, new, solve, PAYBACK)
    done = guard(fleet.snapshot, fleet.library, new, solve, replace(PAYBACK, left_out_usd=1e9))
    assert not check(done, fleet.snapshot)
    saves = held.usd_per_hour + held.spot_risk_usd_per_hour - new.usd_per_hour - new.spot_risk_usd_per_hour
    assert sum(done.unmet.values()) <= sum(new.unmet.values()) + 1e-5
    assert short_of_replicas(done) <= short_of_replicas(new)
    is_calm = all(instance.state == "ready" for instance in fleet.snapshot.staying())
    assert is_calm or counts(done) == counts(held)
    if is_calm and counts(held) != counts(new) and saves > 1e-6:
        assert done.usd_per_hour + done.spot_risk_usd_per_hour < held.usd_per_hour + held.spot_risk_usd_per_hour
        assert any(reason.kind == "added-up" for reason in done.reasons)


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
