"""What is said of a plan is true: an independent brute force finds the same savings and runners-up."""

from dataclasses import replace

import pytest

from control.allocator import solve
from control.explain import explain, reasons
from control.explain.node_saving import VERIFIED
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Replicas
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from tests import factories as make
from tests.brute_force import best_plan
from tests.control.explain.explained_worlds import World, one_kind_world, scarce_world


def with_one_more(snapshot: Snapshot, offer: str) -> Snapshot:
    """Written apart from the code under test."""
    offers = [
        replace(o, available_count=(o.available_count or 0) + (1 if o.key == offer else 0)) for o in snapshot.offers
    ]
    pools = [replace(p, limit=p.limit + p.members.get(offer, 0.0)) for p in snapshot.pools]
    return replace(snapshot, offers=tuple(offers), pools=tuple(pools))


@pytest.mark.parametrize("seed", range(30))
def test_a_verified_saving_is_what_an_independent_search_finds(seed: int) -> None:
    world = scarce_world(seed)
    plan = solve(world.snapshot, world.library)
    before = best_plan(world.snapshot, world.templates)
    for saving in explain(plan, world.snapshot, world.library, solve).one_more_node:
        if not saving.verified:
            continue
        after = best_plan(with_one_more(world.snapshot, saving.offer), world.templates)
        served = before.unmet_requests_per_s - after.unmet_requests_per_s
        assert saving.requests_per_s == pytest.approx(served, abs=1e-5)
        if saving.requests_per_s < 1e-5:
            found = saving.usd_per_hour + saving.init_usd
            assert found == pytest.approx(before.objective - after.objective, abs=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_a_runner_up_is_the_best_plan_without_the_template(seed: int) -> None:
    world = scarce_world(seed)
    plan = solve(world.snapshot, world.library)
    before = best_plan(world.snapshot, world.templates)
    found = explain(plan, world.snapshot, world.library, solve).runners_up
    assert {r.without for r in found} <= {i.template_id for i in plan.instances}
    order = [(r.unmet_requests_per_s, r.more_objective) for r in found]
    assert order == sorted(order)
    for other in found:
        rest = {name: template for name, template in world.templates.items() if name != other.without}
        after = best_plan(world.snapshot, rest)
        missing = after.unmet_requests_per_s - before.unmet_requests_per_s
        assert other.unmet_requests_per_s == pytest.approx(missing, abs=1e-5)
        if after.unmet_requests_per_s < 1e-5:
            assert other.more_objective == pytest.approx(after.objective - before.objective, abs=1e-5)


def test_enough_worlds_have_something_to_say() -> None:
    explained = [scarce_world(seed) for seed in range(30)]
    found = [explain(solve(w.snapshot, w.library), w.snapshot, w.library, solve) for w in explained]
    assert sum(any(s.helps for s in e.one_more_node) for e in found) > 5
    assert sum(any(r.more_objective > 0.01 for r in e.runners_up) for e in found) > 5


def explained(world: World):
    plan = solve(world.snapshot, world.library)
    return plan, explain(plan, world.snapshot, world.library, solve)


def test_nothing_binds_where_there_is_plenty() -> None:
    plan, found = explained(one_kind_world(available=50, requests_per_s=3.0))
    assert found.limits == ()
    assert found.one_more_node == ()
    assert (found.kinds_with_room, found.kinds_without_room) == (1, 1)
    assert found.shortage is None
    assert found.demand_usd_per_hour == {"m/chat": pytest.approx(1.0)}
    assert "no limit" in reasons(plan, one_kind_world(available=50, requests_per_s=3.0).snapshot)[0].text


def test_supply_that_is_used_up_binds_and_what_is_missing_is_counted() -> None:
    plan, found = explained(one_kind_world(available=4, requests_per_s=8.0))
    assert plan.unmet == {"m/chat": pytest.approx(4.0, abs=1e-4)}
    (limit,) = found.limits
    assert (limit.kind, limit.subject) == ("supply", "aws/a/vm-A:1/n25/on-demand")
    assert limit.text == "all 4 nodes of A:1/n25 in aws/a (vm-A:1/n25, on-demand) are used"
    missing = found.shortage
    assert missing is not None
    assert (missing.lifted, missing.left, missing.usd_per_hour) == ("supply", {}, pytest.approx(8.0))
    assert missing.nodes == {"aws/a/vm-A:1/n25/on-demand": 4}
    (saving,) = found.one_more_node
    assert not saving.helps, "a node alone does prefill or decode, not both"


def test_nodes_that_are_left_over_may_still_be_too_few() -> None:
    world = one_kind_world(available=3, requests_per_s=6.0)
    plan, found = explained(world)
    assert found.limits == ()
    assert "not enough for an instance" in reasons(plan, world.snapshot)[1].text
    assert found.shortage is not None
    assert found.shortage.nodes == {"aws/a/vm-A:1/n25/on-demand": 3}
    (saving,) = found.one_more_node
    assert (saving.used, saving.most) == (2, 3)
    assert saving.requests_per_s == pytest.approx(2.0, abs=1e-4)
    assert saving.usd_per_hour == pytest.approx(-2.0)


def test_where_no_offer_has_a_node_to_give_that_is_said() -> None:
    world = one_kind_world(available=0, requests_per_s=6.0)
    plan, _ = explained(world)
    assert "no offer has a node to give now" in reasons(plan, world.snapshot)[1].text


def test_an_unknown_supply_names_the_policy_that_bounds_it() -> None:
    world = one_kind_world(available=None, requests_per_s=4.0, max_unproven_nodes=4)
    plan, found = explained(world)
    assert "policy.max_unproven_nodes = 4: nobody says how many there are" in found.limits[0].text
    assert reasons(plan, world.snapshot)[0].kind == "supply"


@pytest.mark.parametrize(
    ("guardrails", "kind", "lifted"),
    [
        ({"max_usd_per_hour": 4.0}, "budget", "policy.max_usd_per_hour"),
        ({"replicas": {"m/decode": Replicas(0, 1)}}, "replicas", "policy.replicas"),
    ],
)
def test_a_policy_that_leaves_demand_unmet_is_named(guardrails: dict[str, object], kind: str, lifted: str) -> None:
    _, found = explained(one_kind_world(available=50, requests_per_s=6.0, **guardrails))
    assert kind in {limit.kind for limit in found.limits}
    assert found.shortage is not None
    assert (found.shortage.lifted, found.shortage.left) == (lifted, {})


def test_supply_and_policy_together_may_be_what_is_missing() -> None:
    _, found = explained(one_kind_world(available=1, requests_per_s=6.0, max_usd_per_hour=4.0))
    assert found.shortage is not None
    assert (found.shortage.lifted, found.shortage.left) == ("supply and policy", {})


def test_demand_that_no_template_serves_is_said_to_be_out_of_reach() -> None:
    world = one_kind_world(available=5, requests_per_s=2.0)
    library = world.library.select(world.library.entry_class == 0)
    plan = solve(world.snapshot, library)
    missing = explain(plan, world.snapshot, library, solve).shortage
    assert missing is not None
    assert (missing.lifted, missing.left) == ("", plan.unmet)


def test_a_search_that_the_clock_cut_short_says_so() -> None:
    world = scarce_world(0)
    limits = replace(world.snapshot.settings.limits, wall_clock_s=1.0)
    snapshot = replace(world.snapshot, settings=replace(world.snapshot.settings, limits=limits))
    plan = replace(solve(snapshot, world.library), statistics={"timed_out": 1.0})
    assert "another run may give another plan" in reasons(plan, snapshot)[0].text


def test_a_quota_that_is_full_binds() -> None:
    world = one_kind_world(available=50, requests_per_s=6.0)
    pool = SupplyPool("G-VT", 10.0, "vcpus", {world.snapshot.offers[0].key: 4.0}, "test")
    _, found = explained(replace(world, snapshot=replace(world.snapshot, pools=(pool,))))
    assert [(b.kind, b.text) for b in found.limits] == [("quota", "8 of 10 vcpus of quota G-VT are used")]
    assert found.shortage is not None
    assert found.shortage.quotas == {"G-VT": pytest.approx(14.0)}
    assert found.shortage.nodes == {}
    (saving,) = found.one_more_node
    assert (saving.used, saving.most, saving.verified) == (2, 50, True)


def test_a_minimum_that_supply_cannot_give_is_admitted() -> None:
    world = one_kind_world(available=3, requests_per_s=2.0, replicas={"m/decode": Replicas(3)})
    plan = solve(world.snapshot, world.library)
    assert any(r.kind == "replicas" and r.subject == "m/decode" for r in reasons(plan, world.snapshot))


def test_a_cheaper_plan_that_needs_no_node_more_is_no_saving() -> None:
    world = one_kind_world(available=2, requests_per_s=2.0)
    plan = solve(world.snapshot, world.library)

    def lucky(snapshot: Snapshot, library: Library, *, policy: str = "medley") -> Plan:
        return replace(plan, objective=plan.objective - 1.0, usd_per_hour=plan.usd_per_hour - 1.0)

    (saving,) = explain(plan, world.snapshot, world.library, lucky).one_more_node
    assert saving.verified
    assert not saving.helps


@pytest.mark.parametrize("seed", range(10))
def test_what_the_search_missed_without_the_node_is_no_saving_of_the_node(seed: int) -> None:
    world = scarce_world(seed)
    plan = solve(world.snapshot, world.library)
    missed = replace(plan, objective=plan.objective + 0.5, usd_per_hour=plan.usd_per_hour + 0.5)
    found, true = (explain(each, world.snapshot, world.library, solve).one_more_node for each in (missed, plan))
    for saving, exact in zip(found, true, strict=True):
        assert saving.usd_per_hour == pytest.approx(exact.usd_per_hour, abs=1e-5)


def test_only_the_first_kinds_are_re_solved() -> None:
    offers = [make.offer("A:1/n25", f"aws/{zone}", 1.0 + i / 10, 1) for i, zone in enumerate("abcdef")]
    world = one_kind_world(available=1, requests_per_s=6.0)
    snapshot = replace(world.snapshot, offers=tuple(offers))
    plan = solve(snapshot, world.library)
    found = explain(plan, snapshot, world.library, solve).one_more_node
    assert [s.verified for s in found] == [True] * VERIFIED + [False] * (len(offers) - VERIFIED)
