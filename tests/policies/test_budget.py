"""Allowances and the ladder: what is given up, in which order, and when it is taken back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.budget import BURST, Allowance, Budget, BudgetState, allowance
from policies.degradation import EASE, Rung, SolveRung, TakeRung, Tried, next_step

ALL = tuple(Rung)
TEN = Allowance(10.0, "10.00 $/h is the budget of fleet chat")


def climb(costs: dict[Rung, float], allowed: Allowance = TEN, in_force: Rung = Rung.NOTHING) -> TakeRung:
    rungs, tried = tuple(costs), list[Tried]()
    while isinstance(step := next_step(allowed, in_force, rungs, tried), SolveRung):
        assert step.rung == rungs[len(tried)]
        tried.append(Tried(step.rung, costs[step.rung], unmet=2.0 if step.rung is Rung.SHED else 0.0))
    return step


def test_what_fits_gives_up_nothing_and_says_nothing() -> None:
    assert climb(dict(zip(ALL, (10, 9, 8, 7), strict=True))) == TakeRung(Rung.NOTHING, ())


def test_one_thing_after_the_other_is_given_up_with_the_reason_of_each() -> None:
    taken = climb(dict(zip(ALL, (14, 12, 9, 7), strict=True)))
    assert taken.rung is Rung.LOOSER_CLASS
    assert taken.reasons == (
        "nothing is given up costs 14.00 $/h; 10.00 $/h is the budget of fleet chat",
        "more spot costs 12.00 $/h; 10.00 $/h is the budget of fleet chat",
        "a looser class of service costs 9.00 $/h",
    )


def test_shedding_is_last_and_says_what_is_lost() -> None:
    taken = climb(dict(zip(ALL, (14, 13, 12, 9.5), strict=True)))
    assert taken.rung is Rung.SHED
    assert taken.reasons[-1] == "shedding demand costs 9.50 $/h; 2 requests/s are not served"


def test_a_rung_that_changes_nothing_is_not_solved() -> None:
    assert climb({Rung.NOTHING: 14.0, Rung.SHED: 9.0}).rung is Rung.SHED


def test_what_was_given_up_is_taken_back_only_with_something_to_spare() -> None:
    near = 10 * (1 - EASE / 2)
    assert climb(dict(zip(ALL, (near, 8, 7, 6), strict=True)), in_force=Rung.MORE_SPOT).rung is Rung.MORE_SPOT
    assert climb(dict(zip(ALL, (near, 8, 7, 6), strict=True)), in_force=Rung.NOTHING).rung is Rung.NOTHING
    assert climb(dict(zip(ALL, (9, 8, 7, 6), strict=True)), in_force=Rung.SHED).rung is Rung.NOTHING


@given(st.tuples(*[st.floats(0, 100)] * 4), st.floats(0, 100), st.sampled_from(ALL))
def test_no_more_is_given_up_than_the_allowance_asks(costs: tuple[float, ...], allowed: float, in_force: Rung) -> None:
    taken = climb(dict(zip(ALL, costs, strict=True)), Allowance(allowed, "why"), in_force).rung
    assert taken is Rung.SHED or costs[taken] <= allowed
    assert all(costs[rung] > allowed * (1 - EASE) for rung in ALL[:taken])
    assert all(costs[rung] > allowed for rung in ALL[in_force:taken])


def state(budget: Budget, month_usd: float = 0, hours_left: float = 100, others: float = 0) -> BudgetState:
    return BudgetState("fleet chat", budget, month_usd, hours_left, others)


def test_the_tightest_budget_counts_less_what_others_spend_of_it() -> None:
    assert allowance([]).usd_per_hour == math.inf
    own, shared = state(Budget(usd_per_hour=8)), state(Budget(usd_per_hour=20), others=13)
    assert allowance([own, shared]).usd_per_hour == 7
    assert "13.00 $/h of it with others" in allowance([own, shared]).reason


def test_a_months_money_is_paced_and_never_overdrawn() -> None:
    budget, left, hours = Budget(usd_per_month=720), 720.0, 720
    for hour in range(hours):
        rate = allowance([state(budget, 720 - left, hours - hour)]).usd_per_hour
        assert rate == pytest.approx(BURST * left / (hours - hour))
        left -= min(rate, left)
    assert left == pytest.approx(0, abs=0.1)
    assert allowance([state(budget, 900, 10)]).usd_per_hour == 0


def test_a_floor_is_granted_when_the_month_is_spent() -> None:
    budget = Budget(usd_per_month=100, floor_usd_per_hour=0.5)
    found = allowance([state(budget, 200)])
    assert found.usd_per_hour == 0.5
    assert "200.00 of 100.00 $ of this month are spent" in found.reason


@pytest.mark.parametrize(
    "limits", [(None, None, 0.0), (0.0, None, 0.0), (math.nan, None, 0.0), (1.0, None, 2.0), (1.0, -1.0, 0.0)]
)
def test_an_impossible_budget_is_refused(limits: tuple[float | None, float | None, float]) -> None:
    with pytest.raises(ValueError, match="budget"):
        Budget(*limits)
