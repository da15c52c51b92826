from dataclasses import replace

import pytest

from bench.evaluation.scale_down import scale_to_feasible
from control.checker import check
from policies.cauchy import plan_cauchy
from policies.homo import plan_homo
from policies.homo_joint import plan_homo_joint
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Mode, Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from templates_lib.values.work import Unit
from tests.factories import library, offer, route, running, snapshot, work_class

ZONE, OTHER = "aws/z1", "aws/z2"
CLASSES = [
    work_class("big/prefill"),
    work_class("big/decode", Unit.OUTPUT_TOKEN),
    work_class("small/prefill"),
    work_class("small/decode", Unit.OUTPUT_TOKEN),
]
LIBRARY = library(
    CLASSES,
    {
        "bp-fast": ({"L40S:1/n25": 1}, [{"big/prefill": 1000.0}]),
        "bp-slow": ({"L4:1/n10": 1}, [{"big/prefill": 200.0}]),
        "bd-fast": ({"L40S:1/n25": 1}, [{"big/decode": 100.0}]),
        "bd-slow": ({"L4:1/n10": 1}, [{"big/decode": 40.0}]),
        "sp-fast": ({"L40S:1/n25": 1}, [{"small/prefill": 2000.0}]),
        "sp-slow": ({"L4:1/n10": 1}, [{"small/prefill": 700.0}]),
        "sd-slow": ({"L4:1/n10": 1}, [{"small/decode": 90.0}]),
        "mixed": ({"L4:1/n10": 1, "L40S:1/n25": 1}, [{"big/prefill": 1500.0}]),
    },
)
ROUTES = [
    route("big", {"big/prefill": 100.0, "big/decode": 10.0}),
    route("small", {"small/prefill": 100.0, "small/decode": 10.0}),
]
PAPER = Settings(mode=Mode.PAPER, utilisation_cap=1.0)
ZONES = Settings(mode=Mode.ZONES, utilisation_cap=1.0)


def world(demand: dict[str, float], settings: Settings = ZONES, l40s: int = 100, **fields: object) -> Snapshot:
    offers = [
        offer("L40S:1/n25", ZONE, 2.0, l40s),
        offer("L4:1/n10", ZONE, 0.7, 100),
        offer("L4:1/n10", OTHER, 0.5, 100),
    ]
    return snapshot(offers, ROUTES, demand, settings=settings, **fields)


def unused_solver(snapshot: Snapshot, library: Library, *, policy: str = "medley") -> Plan:
    pytest.fail("a greedy baseline has no use for the solver")


@pytest.mark.parametrize("policy", [plan_homo, plan_cauchy])
@pytest.mark.parametrize("settings", [PAPER, ZONES])
def test_a_baseline_serves_the_demand_with_single_node_replicas_and_passes_the_checker(policy, settings) -> None:
    view = world({"big": 7.0, "small": 9.0}, settings)
    plan = policy(view, LIBRARY, unused_solver)
    assert check(plan, view) == ()
    assert plan.unmet == {}
    assert all(sum(i.nodes.values()) == 1 for i in plan.instances)


def test_homo_takes_the_best_goodput_per_dollar_of_each_phase() -> None:
    plan = plan_homo(world({"big": 4.0}, PAPER), LIBRARY, unused_solver)
    assert {(i.template_id, i.zone, i.count) for i in plan.instances} == {("bp-fast", ZONE, 1), ("bd-slow", OTHER, 1)}
    assert plan.usd_per_hour == pytest.approx(2.5)


def test_homo_with_zones_keeps_the_phases_of_a_request_in_one_zone() -> None:
    plan = plan_homo(world({"big": 4.0}), LIBRARY, unused_solver)
    assert len({i.zone for i in plan.instances}) == 1
    assert plan.traffic_usd_per_hour == 0.0


def test_homo_serves_by_priority_when_models_want_the_same_nodes() -> None:
    view = world({"small": 9.0, "big": 15.0}, PAPER, l40s=1)
    first_come = plan_homo(view, LIBRARY, unused_solver)
    urgent = replace(view, demand=tuple(replace(d, priority=int(d.app == "big")) for d in view.demand))
    by_priority = plan_homo(urgent, LIBRARY, unused_solver)
    assert "bp-fast" in {i.template_id for i in by_priority.instances}
    assert check(first_come, view) == ()
    assert check(by_priority, urgent) == ()


@pytest.mark.parametrize("policy", [plan_homo, plan_cauchy])
@pytest.mark.parametrize("settings", [PAPER, ZONES])
def test_machines_that_cost_nothing_are_taken(policy, settings) -> None:
    offers = [offer("L40S:1/n25", ZONE, 0.0, 3), offer("L4:1/n10", ZONE, 0.0, 100)]
    given = snapshot(offers, ROUTES, {"big": 10.0, "small": 5.0}, settings=settings)
    plan = policy(given, LIBRARY, unused_solver)
    assert check(plan, given) == ()
    assert not plan.unmet
    assert plan.usd_per_hour == 0


@pytest.mark.parametrize("policy", [plan_homo, plan_cauchy])
def test_a_baseline_never_takes_more_than_a_pool_allows(policy) -> None:
    pool = SupplyPool("l4", 3.0, "vCPU", {"aws/z1/vm-L4:1/n10/on-demand": 1.0, "aws/z2/vm-L4:1/n10/on-demand": 1.0})
    view = world({"small": 40.0}, ZONES, pools=[pool])
    plan = policy(view, LIBRARY, unused_solver)
    assert check(plan, view) == ()
    assert plan.unmet["small/chat"] > 0


@pytest.mark.parametrize("policy", [plan_homo, plan_cauchy])
def test_what_runs_already_is_not_charged_for_starting(policy) -> None:
    settings = replace(PAPER, startup_minutes=6.0)
    cold = world({"big": 4.0}, settings)
    plan = policy(cold, LIBRARY, unused_solver)
    at_place = {(o.node_config, o.zone_id): o for o in cold.offers}
    instances = [
        running(i.template_id, [at_place[next(iter(i.nodes)), i.zone]], name=f"{i.zone}-{n}-")
        for i in plan.instances
        for n in range(i.count)
    ]
    again = policy(replace(cold, instances=tuple(instances)), LIBRARY, unused_solver)
    assert plan.init_usd == pytest.approx(0.1 * plan.rent_usd_per_hour)
    assert again.init_usd == pytest.approx(0.0)


def test_cauchy_feeds_several_decode_replicas_from_one_prefill_replica() -> None:
    plan = plan_cauchy(world({"big": 10.0}, PAPER), LIBRARY, unused_solver)
    counts = {i.template_id: i.count for i in plan.instances}
    assert counts == {"bp-fast": 1, "bd-slow": 3}


def test_homo_joint_hands_the_solver_homogeneous_templates_only() -> None:
    seen: list[Library] = []

    def solve(snapshot: Snapshot, library: Library, *, policy: str = "medley") -> Plan:
        seen.append(library)
        return plan_homo(snapshot, library, unused_solver)

    plan_homo_joint(world({"big": 1.0}), LIBRARY, solve)
    assert "mixed" not in {seen[0].template_id(i) for i in range(seen[0].size)}
    assert seen[0].size == LIBRARY.size - 1


def test_demand_is_scaled_down_to_what_a_method_can_serve() -> None:
    view = world({"small": 200.0}, PAPER)
    starved = replace(view, offers=tuple(replace(o, available_count=5) for o in view.offers))
    feasible = scale_to_feasible(lambda s: plan_homo(s, LIBRARY, unused_solver), starved)
    assert 0 < feasible.share < 1
    assert feasible.plan is not None
    assert feasible.plan.unmet == {}


def test_no_demand_rents_nothing() -> None:
    for policy in (plan_homo, plan_cauchy):
        plan = policy(world({"big": 0.0}), LIBRARY, unused_solver)
        assert (plan.instances, plan.usd_per_hour, plan.unmet) == ((), 0.0, {})
