"""Reachability is part of traffic: nothing is planned between zones that do not reach each other."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from control.allocator.allocate import solve
from control.checker.check import check
from control.explain import explain
from control.fleet_file.problem import SpecError
from control.offers.quotes import Quotes
from control.offers.reached import no_way, reached
from control.planning.world import World
from templates_lib.values.library import Library
from templates_lib.values.reach import Reach
from templates_lib.values.settings import Mode, Settings, WorkLimits
from templates_lib.values.snapshot import Snapshot
from tests import factories as make
from tests.control.planning.worlds import KEEP_SPEC, world_of

SPEC = KEEP_SPEC.format(keep="throughput").replace(
    "regions: [us-east-2], gpus: [L40S, L4]}",
    "regions: [us-east-1, us-east-2], gpus: [L4]}\n  - {cloud: gcp, gpus: [L4]}",
)


def crossings(world: World) -> set[tuple[str, str]]:
    """Pairs of (cloud, or cloud and the beginning of a region's zones) between which something may go."""
    ends = {"aws/use1": "aws/us-east-1", "aws/use2": "aws/us-east-2", "gcp": "gcp"}
    name = lambda zone: next(network for start, network in ends.items() if zone.startswith(start))  # noqa: E731
    return {(name(each.source), name(each.target)) for each in world.quotes.traffic}


def test_only_zones_of_one_network_or_of_joined_ones_exchange_kv_caches(tmp_path: Path) -> None:
    alone = {(each, each) for each in ("aws/us-east-1", "aws/us-east-2", "gcp")}
    made = world_of(tmp_path, SPEC)
    assert crossings(made) == alone
    (note,) = [each for each in made.quotes.notes if "network.peered" in each]
    assert "aws/us-east-1 and aws/us-east-2" in note

    peered = world_of(tmp_path, SPEC + "network: {peered: [{networks: [aws/us-east-2, gcp]}]}\n")
    assert crossings(peered) == alone | {("aws/us-east-2", "gcp"), ("gcp", "aws/us-east-2")}

    joined = world_of(tmp_path, SPEC + "network: {peered: [{networks: [aws/us-east-2, gcp, aws/us-east-1]}]}\n")
    assert crossings(joined) == alone | set(permutations(("aws/us-east-1", "aws/us-east-2", "gcp"), 2))
    assert not [each for each in joined.quotes.notes if "network.peered" in each]


def test_what_is_left_out_is_what_joining_would_allow(tmp_path: Path) -> None:
    def pairs(world: World) -> set[tuple[str, str]]:
        return {(each.source, each.target) for each in world.quotes.traffic}

    alone = world_of(tmp_path, SPEC)
    joined = world_of(tmp_path, SPEC + "network: {peered: [{networks: [aws/us-east-2, gcp, aws/us-east-1]}]}\n")
    _, nothing = apart({f"{A} m/decode": 1.0}, False)
    left_out = no_way(alone.snapshot("", nothing))
    assert {(each.source, each.target) for each in left_out} == pairs(joined) - pairs(alone)
    assert no_way(joined.snapshot("", nothing)) == ()


def test_nothing_is_rented_where_gateways_do_not_reach(tmp_path: Path) -> None:
    made = world_of(tmp_path, SPEC + "network: {gateways: gcp, peered: [{networks: [aws/us-east-2, gcp]}]}\n")
    there = {each.region for each in made.quotes.offers if each.available_count != 0}
    assert ("us-east-1" in there, "us-east-2" in there) == (False, True)
    assert any("gateways in gcp do not reach aws/us-east-1" in each for each in made.quotes.notes)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("{overlay: vxlan}", "wireguard"),
        ("{peered: [{networks: [aws/us-east-2]}]}", "peered"),
        ("{peered: [{networks: [aws, gcp]}]}", "aws/REGION"),
        ("{peered: [{networks: [aws/us-east-9, gcp]}]}", "us-east-1"),
        ("{peered: [{networks: [gcp/us-east4, aws/us-east-2]}]}", "'gcp'"),
        ("{peered: [{networks: [runpod/any, aws/us-east-2]}]}", "leave it out"),
        ("{gateways: owned}", "owned/ZONE"),
    ],
)
def test_a_network_that_cannot_be_is_an_error_with_what_to_write(tmp_path: Path, network: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, SPEC + f"network: {network}\n")
    (problem,) = caught.value.problems
    assert (words in str(problem), "network" in str(problem)) == (True, True)


# One kind of node that is good at prefill is sold in one region, one good at decode in another, and each costs ten
# times as much for the other's work.

WORK = ("m/prefill", "m/decode")
A, B = "aws/use2-az1", "aws/use1-az1"
REGION = {A: "us-east-2", B: "us-east-1"}


def apart(usd: Mapping[str, float], peered: bool) -> tuple[Snapshot, Library]:
    """`usd`: price of the node that does each work, by (zone, work)."""
    offers, templates = [], {}
    for number, (place, price) in enumerate(usd.items()):
        zone, _, work = place.partition(" ")
        config = f"{'ABCD'[number]}:1/n25"
        offers.append(replace(make.offer(config, zone, price), region=REGION[zone]))
        templates[f"{number:032x}"] = ({config: 1}, [{work: 2.0}])
    library = make.library([make.work_class(name) for name in WORK], templates)
    settings = Settings(Mode.ZONES, 1.0, startup_minutes=0.0, limits=WorkLimits(gap=0.0))
    routes = [make.route("m", dict.fromkeys(WORK, 1.0), bytes_per_edge=1e6)]
    snapshot = make.snapshot(offers, routes, {"m": 2.0}, settings=settings)
    reach = Reach((frozenset({"aws/us-east-1", "aws/us-east-2"}),) if peered else ())
    prices = no_way(snapshot)
    open_ = reached(Quotes(snapshot.offers, {}, traffic=prices), reach).traffic
    return replace(snapshot, traffic=open_), library


def test_a_route_that_cannot_pass_is_unmet_and_joining_is_what_is_missing() -> None:
    snapshot, library = apart({f"{A} m/prefill": 1.0, f"{B} m/decode": 1.0}, peered=False)
    plan = solve(snapshot, library)
    assert plan.unmet == {"m/chat": 2.0}
    missing = explain(plan, snapshot, library, solve, no_way(snapshot)).shortage
    assert missing is not None
    assert (missing.lifted, missing.left) == ("network.peered", {})

    joined, _ = apart({f"{A} m/prefill": 1.0, f"{B} m/decode": 1.0}, peered=True)
    there = solve(joined, library)
    assert (there.unmet, {flow.zones for flow in there.flows}) == ({}, {(A, B)})
    assert [each.rule for each in check(there, snapshot)] == ["crossing"], "the checker refuses it without a way"


def test_a_plan_that_is_dearer_for_want_of_a_way_says_by_how_much() -> None:
    usd = {f"{A} m/prefill": 1.0, f"{B} m/decode": 1.0, f"{A} m/decode": 9.0, f"{B} m/prefill": 9.0}
    snapshot, library = apart(usd, peered=False)
    plan = solve(snapshot, library)
    assert all(len(set(flow.zones)) == 1 for flow in plan.flows)
    found = explain(plan, snapshot, library, solve, no_way(snapshot))
    (limit,) = [each for each in found.limits if each.kind == "network"]
    joined = solve(apart(usd, peered=True)[0], library)
    assert limit.usd_per_hour == pytest.approx(plan.usd_per_hour - joined.usd_per_hour)
    assert plan.usd_per_hour == pytest.approx(10.0)
    again = explain(joined, apart(usd, peered=True)[0], library, solve, ())
    assert not [each for each in again.limits if each.kind == "network"]
