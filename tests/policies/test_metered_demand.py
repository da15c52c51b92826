"""Demand from history: lengths, floors, overrides, and the way to zero and back."""

from dataclasses import replace

import numpy as np
import pytest

from policies.demand_history import DemandHistory
from policies.forecast import Last
from policies.metered_demand import DemandOverride, DemandRule, demand_at
from policies.metered_work import text_classes
from policies.seasonal_forecast import Seasonal
from templates_lib.values.work import Demand

STEP_S = 300.0
NOW_S = 1_000_000.0
WORK = text_classes("m", 100.0, 50.0)
RULE = DemandRule("m", "m", 1.0, WORK, Last(), horizon_s=3600.0, idle_s=1800.0)


def history(*requests_per_s: float, prompt: float = 100.0, output: float = 50.0, end_s: float = NOW_S) -> DemandHistory:
    rates = np.array(requests_per_s)
    return DemandHistory(
        end_s, STEP_S, rates, dict(zip((of.key for of in WORK), (rates * prompt, rates * output), strict=True))
    )


def rate(past: DemandHistory | None, rule: DemandRule = RULE, waiting: int = 0, **overrides: DemandOverride) -> float:
    histories = {} if past is None else {rule.key: past}
    (demand,) = demand_at(histories, [rule], overrides, {rule.app: waiting}, NOW_S)
    assert demand == Demand(rule.app, "chat", demand.requests_per_s, rule.priority)
    return demand.requests_per_s


def test_requests_of_the_planned_lengths_are_counted_as_they_came():
    assert rate(history(1.0, 2.0)) == 2.0


@pytest.mark.parametrize("longer", [{"prompt": 300.0}, {"output": 150.0}])
def test_longer_requests_count_as_more_of_the_planned_ones(longer: dict[str, float]):
    assert rate(history(2.0, **longer)) == pytest.approx(6.0)


def test_floor_and_ceiling_bound_the_forecast_and_each_part_has_its_share():
    part = replace(RULE, floor_requests_per_s=1.0, ceiling_requests_per_s=8.0, share=0.25)
    assert rate(history(0.0), part) == 0.25
    assert rate(history(100.0), part) == 2.0
    assert rate(None, part) == 0.25


def test_an_override_counts_until_it_expires():
    rule = replace(RULE, ceiling_requests_per_s=8.0, share=0.5)
    assert rate(history(3.0), rule, m=DemandOverride(40.0, NOW_S + 1)) == 20.0
    assert rate(history(3.0), rule, m=DemandOverride(0.0, NOW_S + 1)) == 0.0
    assert rate(history(3.0), rule, m=DemandOverride(40.0, NOW_S)) == 3.0


def test_a_model_goes_to_zero_when_nobody_has_come_for_a_while_and_not_before():
    assert rate(history(1.0, 0.0, 0.0)) > 0
    assert rate(history(1.0, *[0.0] * 5)) > 0
    assert rate(history(1.0, *[0.0] * 6)) == 0
    assert rate(None) == 0


def test_a_model_at_zero_that_somebody_waits_for_has_demand_at_once():
    assert rate(history(*[0.0] * 20), waiting=1) > 0
    assert rate(None, waiting=1) > 0


def test_the_horizon_is_planned_for_at_its_highest():
    day = np.concatenate([np.ones(144), np.full(144, 5.0)])
    past = np.concatenate([np.tile(day, 3), day[:140]])  # 20 minutes before the rise
    rule = replace(RULE, forecast=Seasonal(86_400.0, 900.0))
    assert rate(history(*past), rule) == pytest.approx(5.0)
    assert rate(history(*past), replace(rule, horizon_s=600.0)) == pytest.approx(1.0)


def test_a_history_that_ended_an_hour_ago_is_carried_on_to_now():
    day = np.concatenate([np.ones(144), np.full(144, 5.0)])
    past = np.concatenate([np.tile(day, 3), day[:132]])
    rule = replace(RULE, forecast=Seasonal(86_400.0, 900.0), horizon_s=300.0)
    assert rate(history(*past, end_s=NOW_S - 3600), rule) == pytest.approx(5.0)
