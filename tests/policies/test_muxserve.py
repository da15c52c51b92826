"""Algorithm 1 as a baseline of plans: each model in one place, what needs most first, on GPUs of one type."""

from dataclasses import replace

import pytest

from control.allocator import solve
from control.checker import check, claims_of
from policies.baselines import baselines_of
from policies.shared_units.muxserve import plan_muxserve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from tests.factories import library, offer, route, snapshot, work_class

SMALL, LARGE = "L4:1/n10", "H100:1/n10"
NAMES = ("a", "b", "c")
CLASSES = [work_class(f"{name}/aggregated") for name in NAMES]


def templates() -> Library:
    """Each model alone and each two on either node, all three on the large one."""
    nodes = {
        "a-small": (SMALL, {"a": 1.0}), "b-small": (SMALL, {"b": 1.0}), "c-small": (SMALL, {"c": 1.0}),
        "a-large": (LARGE, {"a": 5.0}), "b-large": (LARGE, {"b": 5.0}), "c-large": (LARGE, {"c": 5.0}),
        "ab": (SMALL, {"a": 1.0, "b": 1.0}), "bc": (SMALL, {"b": 1.0, "c": 1.0}), "ac": (SMALL, {"a": 1.0, "c": 1.0}),
        "ab-large": (LARGE, {"a": 5.0, "b": 5.0}), "bc-large": (LARGE, {"b": 5.0, "c": 5.0}),
        "ac-large": (LARGE, {"a": 5.0, "c": 5.0}),
        "abc": (LARGE, {"a": 5.0, "b": 5.0, "c": 5.0}),
    }  # fmt: skip
    made = library(
        CLASSES,
        {
            name: ({config: 1}, [{f"{each}/aggregated": rate for each, rate in rates.items()}])
            for name, (config, rates) in nodes.items()
        },
    )
    limits = {
        name: ({f"{each}/aggregated": 1 / rate for each, rate in rates.items()},)
        for name, (_, rates) in nodes.items()
        if len(rates) > 1
    }
    return replace(made, limits=limits)


def world(rates: dict[str, float], large: float = 10.0) -> Snapshot:
    offers = [offer(SMALL, "aws/z1", 1.0, 20), offer(LARGE, "aws/z1", large, 20)]
    routes = [route(name, {f"{name}/aggregated": 1.0}) for name in NAMES]
    return snapshot(offers, routes, rates, settings=Settings(utilisation_cap=1.0, startup_minutes=0.0))


def planned(rates: dict[str, float], large: float = 10.0) -> Plan:
    under, made = world(rates, large), templates()
    plan = plan_muxserve(under, made, solve)
    assert check(plan, under, claims_of(made, (i.template_id for i in plan.instances))) == ()
    assert plan.policy == "muxserve"
    return plan


def shared(plan: Plan) -> set[str]:
    return {i.template_id for i in plan.instances if len(i.units_per_s) > 1}


def test_models_of_little_demand_are_put_together() -> None:
    plan = planned({"a": 0.6, "b": 0.3, "c": 0.1})
    # a, then b beside it; c finds the node full on the small nodes, of which two are cheaper than a large one.
    assert shared(plan) == {"ab"}
    assert (plan.usd_per_hour, plan.unmet) == (2.0, {})
    assert shared(planned({"a": 0.6, "b": 0.3, "c": 0.1}, large=1.5)) == {"abc"}


def test_its_order_costs_what_the_planner_saves() -> None:
    rates = {"a": 0.5, "b": 0.45, "c": 0.4}
    plan, best = planned(rates), solve(world(rates), templates())
    assert not best.unmet
    assert plan.usd_per_hour >= best.usd_per_hour * (1 - best.gap)


def test_a_model_is_in_one_place_only() -> None:
    plan = planned({"a": 0.9, "b": 0.05, "c": 0.0})
    assert {name.partition("/")[0] for i in plan.instances for name in i.units_per_s} == {"a", "b"}
    assert all(len(i.units_per_s) == 2 for i in plan.instances)


@pytest.mark.parametrize("limits", [True, False])
def test_plans_are_compared_with_it_where_models_may_share(*, limits: bool) -> None:
    made = templates() if limits else replace(templates(), limits={})
    assert ("muxserve" in baselines_of(made)) == limits
