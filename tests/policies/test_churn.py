"""What the guard says, what it is tired of waiting for, and what it does not give back yet."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from control.allocator import solve
from control.checker import check
from policies.churn import LeftOut, Payback, guard
from templates_lib.values.instance import Instance
from templates_lib.values.plan import Plan, PlannedInstance, PlannedOffer, Reason
from templates_lib.values.settings import Guardrails, Settings
from templates_lib.values.snapshot import Snapshot
from tests import factories

NOW = datetime(2026, 11, 21, tzinfo=UTC)
ZONE = "aws/z"
CHEAP, MIDDLE, DEAR = (
    factories.offer(config, ZONE, usd, count)
    for config, usd, count in (("C:1", 0.1, 0), ("D:1", 1.0, 9), ("E:1", 3.0, 0))
)
CLASSES = [factories.work_class("a/serve"), factories.work_class("b/serve")]
LIBRARY = factories.library(
    CLASSES,
    {
        "a-on-c": ({"C:1": 1}, [{"a/serve": 9.0}]),
        "a-on-d": ({"D:1": 1}, [{"a/serve": 10.0}]),
        "b-on-c": ({"C:1": 1}, [{"b/serve": 9.0}]),
        "b-on-e": ({"E:1": 1}, [{"b/serve": 10.0}]),
    },
)
ROUTES = [factories.route("a", {"a/serve": 1.0}), factories.route("b", {"b/serve": 1.0})]
"""Of a node for `a` and the cheap one for `b`: six minutes until they serve, four beside the old ones."""


def crossed() -> Snapshot:
    """`a` holds the only cheap node, which would save `b` much more."""
    there = [factories.running("a-on-c", [CHEAP]), factories.running("b-on-e", [DEAR])]
    return factories.snapshot([CHEAP, MIDDLE, DEAR], ROUTES, {"a": 7.0, "b": 7.0}, instances=there)


def stepping(state: str, ready_minutes: float = 0.0, **settings: float | None) -> Snapshot:
    """One cheap node is there for `a`, beside the dear one that it alone cannot replace."""
    since = (NOW - timedelta(minutes=ready_minutes)).isoformat()
    cheap = replace(factories.running("a-on-c", [CHEAP], state=state), state_since=since)
    there: list[Instance] = [cheap, factories.running("a-on-d", [MIDDLE])]
    limits = Settings(guardrails=Guardrails(**settings))  # type: ignore[arg-type]
    return factories.snapshot([CHEAP, MIDDLE], ROUTES[:1], {"a": 8.4}, instances=there, settings=limits)


def counts(plan: Plan) -> Counter[str]:
    return Counter({i.template_id: i.count for i in plan.instances})


def guarded(snapshot: Snapshot, payback: Payback | None = None) -> Plan:
    plan = guard(snapshot, LIBRARY, solve(snapshot, LIBRARY), solve, payback)
    assert not check(plan, snapshot)
    return plan


def churn(plan: Plan) -> list[Reason]:
    return [reason for reason in plan.reasons if reason.kind == "churn"]


def test_what_is_left_out_is_said_once_with_what_it_would_save() -> None:
    plan = guarded(crossed())
    assert counts(plan) == Counter({"a-on-c": 1, "b-on-e": 1})
    (reason,) = churn(plan)
    assert reason.text == (
        "4 moves of the cheapest plan are left out: it would save 2.00 $/h and cost 0.18 $ to carry out, but would "
        "break what serves"
    )
    assert reason.usd_per_hour is not None
    assert abs(reason.usd_per_hour - 2.0) < 1e-9


def test_what_was_left_out_until_it_would_have_paid_for_half_as_many_moves_again_is_carried_out() -> None:
    assert counts(guarded(crossed(), Payback(left_out_usd=0.26))) == Counter({"a-on-c": 1, "b-on-e": 1})
    plan = guarded(crossed(), Payback(left_out_usd=0.28))
    assert counts(plan) == counts(solve(crossed(), LIBRARY)) == Counter({"a-on-d": 1, "b-on-c": 1})
    (reason,) = (reason for reason in plan.reasons if reason.kind == "added-up")
    assert reason.text == (
        "moves are made that break what serves: they save 2.00 $/h and cost 0.18 $; "
        "what was left out before has cost 0.28 $"
    )
    assert not churn(plan)


def test_nothing_that_has_added_up_is_begun_while_something_is_on_its_way() -> None:
    moving = replace(crossed(), instances=tuple(replace(i, state="loading") for i in crossed().instances))
    assert not any(reason.kind == "added-up" for reason in guarded(moving, Payback(left_out_usd=9.0)).reasons)
    swapping = guarded(moving, Payback(is_swapping=True))
    assert counts(swapping) == Counter({"a-on-d": 1, "b-on-c": 1})
    assert [reason.kind for reason in swapping.reasons] == ["added-up"]


def test_a_swap_that_counts_on_what_refuses_has_to_have_saved_twice_as_much() -> None:
    doubtful = frozenset({MIDDLE.key})
    once, twice = (guarded(crossed(), Payback(left_out_usd=usd, doubtful=doubtful)) for usd in (0.53, 0.55))
    assert counts(once) == Counter({"a-on-c": 1, "b-on-e": 1})
    assert counts(twice) == Counter({"a-on-d": 1, "b-on-c": 1})


def test_what_has_added_up_is_no_reason_to_move_more_than_may_be_moved() -> None:
    plan = guarded(crossed(), Payback(moves_left=0, left_out_usd=9.0))
    assert counts(plan) == Counter({"a-on-c": 1, "b-on-e": 1})


def test_what_is_left_out_adds_up_with_time_until_it_is_carried_out() -> None:
    longest = timedelta(minutes=10)
    held = guarded(crossed())  # 2 $/h are left out
    known = LeftOut().after(held, NOW, longest)
    assert known.usd_by(NOW, longest) == 0
    known = known.after(held, NOW + timedelta(minutes=6), longest)
    assert known.usd_by(NOW + timedelta(minutes=9), longest) == pytest.approx(0.3)
    quiet = known.after(solve(crossed(), LIBRARY), NOW + timedelta(minutes=9), longest)
    assert quiet.usd_by(NOW + timedelta(minutes=18), longest) == pytest.approx(0.3)
    done = known.after(guarded(crossed(), Payback(left_out_usd=9.0)), NOW + timedelta(minutes=9), longest)
    assert done.usd_by(NOW + timedelta(minutes=18), longest) == 0
    assert done.is_swapping(NOW + timedelta(minutes=23))
    assert not done.is_swapping(NOW + timedelta(minutes=25))
    assert not known.is_swapping(NOW + timedelta(minutes=7))


@pytest.mark.parametrize(("hours", "usd"), [(-1, 0.0), (1, 2.0 / 6)])
def test_a_clock_that_jumps_adds_up_to_little(hours: int, usd: float) -> None:
    longest = timedelta(minutes=10)
    known = LeftOut().after(guarded(crossed()), NOW, longest)
    assert known.usd_by(NOW + timedelta(hours=hours), longest) == pytest.approx(usd)


def test_a_plan_that_costs_more_does_not_save_less_than_nothing() -> None:
    snapshot = replace(crossed(), instances=(factories.running("a-on-c", [CHEAP]),))
    snapshot = replace(snapshot, demand=snapshot.demand[:1])
    bought = PlannedInstance("a-on-d", "a", "serve", ZONE, MIDDLE.market, 2, 0, {"D:1": 1}, {"a/serve": 10.0}, 2.0)
    new = factories.plan([bought], [PlannedOffer(MIDDLE.key, "D:1", 2, 0, 1.0)], [], unmet={"b/chat": 0.5})
    (reason,) = churn(guard(snapshot, LIBRARY, new, solve))
    assert (
        "it would cost 1.90 $/h more, serve 0.5 requests/s less of b/chat and cost 0.33 $ to carry out" in reason.text
    )
    assert "save" not in reason.text


def test_a_cheap_instance_on_its_way_is_kept_beside_the_dear_one_it_is_a_step_from() -> None:
    plan = guarded(stepping("requested"))
    assert counts(plan) == Counter({"a-on-c": 1, "a-on-d": 1})
    assert "1 cheap instance is kept for a while beyond the demand" in churn(plan)[-1].text
    assert counts(guarded(stepping("ready", 14.0)))["a-on-c"] == 1


def test_a_cheap_instance_that_led_nowhere_for_as_long_as_a_move_pays_back_is_given_back() -> None:
    assert counts(guarded(stepping("ready", 16.0))) == Counter({"a-on-d": 1})


def test_no_budget_is_broken_to_keep_a_cheap_instance() -> None:
    assert counts(guarded(stepping("requested", max_usd_per_hour=1.05))) == Counter({"a-on-d": 1})
