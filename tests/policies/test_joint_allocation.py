"""Two models that want the same nodes (Coral paper, section 2.2, figure 2): what choosing for both at once brings.

Two nodes of kind A and three of kind B. Either model serves most for its money on A. M1 alone takes both, more than it
needs, and M2 falls short on what is left. Only where M1 gives one A up for a B beside the other, and M2 joins that A
with the other two B in one replica, are both served, with no node idle.
"""

import pytest

from control.allocator import solve
from control.checker import check
from control.planning.recording import versioned
from policies.cauchy import plan_cauchy
from policies.homo import plan_homo
from policies.homo_joint import plan_homo_joint
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Mode, Settings
from templates_lib.values.snapshot import Snapshot
from tests import factories as make

A, B = "A:1/n25", "B:1/n25"
USD = {A: 2.0, B: 1.5}
LIBRARY = make.library(
    [make.work_class("m1/serve"), make.work_class("m2/serve")],
    {
        "m1 on A": ({A: 1}, [{"m1/serve": 4.0}]),
        "m1 on B": ({B: 1}, [{"m1/serve": 2.0}]),
        # A pipeline has room for more KV cache than its nodes apart: each holds a part of the layers.
        "m1 on A and B": ({A: 1, B: 1}, [{"m1/serve": 6.5}]),
        "m2 on A": ({A: 1}, [{"m2/serve": 3.0}]),
        "m2 on B": ({B: 1}, [{"m2/serve": 2.0}]),
        "m2 on A and two B": ({A: 1, B: 2}, [{"m2/serve": 7.5}]),
    },
)
DEMAND = {"m1": 6.5, "m2": 7.5}


def pool() -> Snapshot:
    offers = [make.offer(A, "cloud/z", USD[A], 2), make.offer(B, "cloud/z", USD[B], 3)]
    routes = [make.route(app, {f"{app}/serve": 1.0}) for app in DEMAND]
    return versioned(make.snapshot(offers, routes, DEMAND, settings=Settings(mode=Mode.PAPER, utilisation_cap=1.0)))


def nodes(plan: Plan, model: str) -> dict[str, int]:
    held = {A: 0, B: 0}
    for instance in plan.instances:
        for config, count in instance.nodes.items():
            held[config] += count * instance.count if instance.model == model else 0
    return held


def test_the_greedy_plan_gives_one_model_too_much_and_leaves_the_other_short() -> None:
    plan = plan_homo(pool(), LIBRARY, solve)
    assert nodes(plan, "m1") == {A: 2, B: 0}
    assert plan.unmet == pytest.approx({"m2/chat": 1.5})


@pytest.mark.parametrize("policy", [plan_homo, plan_homo_joint, plan_cauchy])
def test_no_plan_of_equal_nodes_serves_both(policy) -> None:
    assert policy(pool(), LIBRARY, solve).unmet


def test_the_joint_plan_serves_both_with_mixed_replicas_and_leaves_no_node_idle() -> None:
    snapshot = pool()
    plan = solve(snapshot, LIBRARY)
    assert not plan.unmet
    assert check(plan, snapshot) == ()
    assert nodes(plan, "m1") == {A: 1, B: 1}
    assert nodes(plan, "m2") == {A: 1, B: 2}
