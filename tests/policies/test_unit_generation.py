"""Units found by prices: the relaxation over all units, and plans with a bound that holds for all of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from control.allocator import solve
from control.allocator.regions import maximal_corners
from control.checker import check, claims_of
from policies.shared_units.generation import SoldNode, UnitMarket, generate_units, neighbours
from policies.shared_units.unit_planning import plan_units
from templates_lib.models.catalogue import load_models
from templates_lib.units.enumeration import EnumeratedUnit, enumerated_units
from templates_lib.units.job_times import Lengths
from templates_lib.units.unit_capacity import MemberUse, ServedMember
from templates_lib.values.gpu import GIB
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from tests import factories as make

GPUS = load_gpus()
NODES = tuple(NodeConfig(f"{gpu}:1/n25", gpu, 1, 256.0, 25.0, 64.0) for gpu in ("L4", "L40S", "A100-80"))
CAP = 0.85
QUICK, SLOW = (2,), range(3, 11)


def random_market(seed: int, models: int = 6) -> UnitMarket:
    draw = np.random.default_rng(seed)
    names = [f"m{i}" for i in range(models)]
    weights = {name: float(draw.uniform(2, 16)) * GIB for name in names}
    speed = {node.id: float(draw.uniform(0.5, 2)) for node in NODES}
    uses = {
        node.id: {
            name: MemberUse(
                idle=float(draw.uniform(0.02, 0.3)) / speed[node.id],
                request_s=float(draw.uniform(0.05, 0.4)) / speed[node.id],
                kv_bytes=float(draw.uniform(0.5, 6)) * GIB,
                weight_bytes=weights[name],
                longest_bytes=float(draw.uniform(0.1, 1)) * GIB,
            )
            for name in names
        }
        for node in NODES
    }
    sold = tuple(SoldNode(node, round(speed[node.id] * float(draw.uniform(0.7, 1.5)), 3), 4) for node in NODES)
    rates = {name: float(draw.uniform(0.1, 3)) / CAP for name in names}
    return UnitMarket(sold, uses, GPUS, rates)


def every_unit(market: UnitMarket) -> tuple[EnumeratedUnit, ...]:
    found = enumerated_units(market.uses, NODES, GPUS)
    assert found.are_all
    return found.units


def relaxation_over_all(market: UnitMarket) -> float:
    """Cost of the relaxation over every corner of every unit, clipped at what is needed."""
    names = sorted(market.requests_per_s)
    needed = np.array([market.requests_per_s[name] for name in names])
    columns, costs, kind = [], [], []
    for unit in every_unit(market):
        at = [names.index(name) for name in unit.members]
        most = np.minimum(unit.capacity.most, needed[at])
        rows = np.array([unit.capacity.time, unit.capacity.kv])
        for _, corners in maximal_corners(most[None], rows[None]):
            for corner in corners:
                column = np.zeros(len(names))
                column[at] = corner / needed[at]
                columns.append(column)
                number = [sold.node.id for sold in market.sold].index(unit.node.id)
                costs.append(market.sold[number].usd_per_hour)
                kind.append(number)
    serve = -np.array(columns).T
    within = np.array([[float(k == number) for k in kind] for number in range(len(market.sold))])
    right = np.concatenate([-np.ones(len(names)), [float(sold.count) for sold in market.sold]])
    found = linprog(costs, np.vstack([serve, within]), right, method="highs")
    assert found.status == 0, found.message
    return float(found.fun)


def snapshot_of(market: UnitMarket) -> tuple[Snapshot, dict[str, ServedMember]]:
    model = load_models()["phi-4-14b"]
    members = {name: ServedMember(name, model, Lengths(100, 100), 1000, 2.0, 0.1) for name in market.requests_per_s}
    snapshot = make.snapshot(
        [make.offer(sold.node.id, "aws/x/1", sold.usd_per_hour, sold.count) for sold in market.sold],
        [make.route(name, {f"{name}/aggregated": 1.0}) for name in market.requests_per_s],
        {name: rate * CAP for name, rate in market.requests_per_s.items()},
        settings=Settings(utilisation_cap=CAP, startup_minutes=0.0),
    )
    return replace(snapshot, library_version=""), members


@pytest.mark.parametrize("seed", range(3))
def test_prices_find_the_relaxation_over_all_units_without_listing_them(seed: int) -> None:
    market = random_market(seed)
    found, least = generate_units(market), relaxation_over_all(market)
    assert found.usd_per_hour == pytest.approx(least, rel=2e-4)
    assert found.bound == pytest.approx(least, rel=2e-4)
    assert found.bound <= least * (1 + 1e-6)
    known = {(unit.node.id, unit.members) for unit in every_unit(market)}
    assert {(unit.node.id, unit.members) for unit in found.units} <= known


@pytest.mark.parametrize("seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW)])
def test_generated_units_make_plans_about_as_good_as_all_of_them(seed: int) -> None:
    market = random_market(seed)
    snapshot, members = snapshot_of(market)
    whole = plan_units(snapshot, members, market, solve)
    some = plan_units(snapshot, members, market, solve, few=0)
    assert whole.are_all
    assert not some.are_all
    for each in (whole, some):
        claims = claims_of(each.library, (i.template_id for i in each.plan.instances))
        assert check(each.plan, snapshot, claims) == ()
        assert not each.plan.unmet
        assert 0 <= each.gap < 1
    assert some.bound <= whole.plan.objective * (1 + 1e-6)
    assert whole.bound * (1 - 1e-6) <= some.plan.objective <= whole.plan.objective * 1.05


def test_neighbours_differ_by_one_member_or_by_their_node() -> None:
    market = random_market(1)
    unit = next(each for each in every_unit(market) if each.node.gpu == "A100-80" and len(each.members) == 2)
    near = {(each.node.id, each.members) for each in neighbours(market, [unit])}
    for each in every_unit(market):
        key = each.node.id, each.members
        more, less = set(each.members) - set(unit.members), set(unit.members) - set(each.members)
        if each.node == unit.node:
            assert (key in near) == (len(more) <= 1 and len(less) <= 1)
        else:
            assert (key in near) == (not more and not less)


def test_a_model_that_no_node_can_serve_leaves_a_bound_and_the_others_units() -> None:
    market = random_market(2)
    uses = {node: {name: use for name, use in here.items() if name != "m0"} for node, here in market.uses.items()}
    found = generate_units(replace(market, uses=uses))
    assert all("m0" not in unit.members for unit in found.units)
    assert {name for unit in found.units for name in unit.members} == set(market.requests_per_s) - {"m0"}
    assert found.bound <= found.usd_per_hour * (1 + 1e-9)
