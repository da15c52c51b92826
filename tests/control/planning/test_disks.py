"""Disks are part of what plans cost: of the size that nodes are launched with, at their cloud's price."""

from dataclasses import replace
from pathlib import Path

import pytest

from control.allocator import solve
from control.checker import check, claims_of
from control.db.database import Database
from control.planning.disks import charged_disks, disk_prices
from templates_lib.models.catalogue import load_models
from templates_lib.models.node_disk import disk_gib
from templates_lib.values.disks import Disks
from templates_lib.values.settings import Guardrails, Settings
from tests import factories as make
from tests.control.planning.worlds import KEEP_SPEC, planned, world_of

PER_GIB_MONTH = {"aws": 0.08, "gcp": 0.10, "runpod": 0.10, "owned": 0.0, "kubernetes": 0.0}
TINY = {"p": ({"L4:1/n10": 1}, [{"gpt-oss-20b/prefill": 1.0}])}


@pytest.mark.parametrize("cloud", PER_GIB_MONTH)
def test_a_node_pays_for_the_disk_that_it_is_launched_with(tmp_path: Path, cloud: str) -> None:
    served = world_of(tmp_path, KEEP_SPEC.format(keep="throughput")).recipe.served
    disks = charged_disks(served, (), make.library(served[0].work_classes(), TINY), [cloud])
    size = disk_gib([load_models()["gpt-oss-20b"]], [served[0].engine]) if cloud in disk_prices() else 0
    assert disks.node_gib(["gpt-oss-20b"]) == size
    assert disks.usd_per_hour(f"{cloud}/a", size, 3) == pytest.approx(3 * size * PER_GIB_MONTH[cloud] / 730)


def test_disks_hold_the_engine_of_the_template_alone(tmp_path: Path) -> None:
    spec = KEEP_SPEC.format(keep="throughput").replace("gpt-oss-20b", "gpt-oss-120b").replace("[L40S, L4]", "[H100]")
    served = world_of(tmp_path, spec).recipe.served
    assert {each.engine for each in served[0].by_engine()} == {"torch", "vllm"}
    templates = dict.fromkeys(("p", "q"), ({"H100:8/n100": 1}, [{"gpt-oss-120b/prefill": 1.0}]))
    library = make.library(served[0].work_classes(), templates, {"p": "vllm", "q": "torch"})
    disks = charged_disks(served, (), library, ["aws"])
    sizes = {engines: disks.node_gib(["gpt-oss-120b"], engines) for engines in ("torch", "vllm", "", "another")}
    model = load_models()["gpt-oss-120b"]
    assert sizes["torch"] == disk_gib([model]) < sizes["vllm"] == disk_gib([model], ["vllm"])
    assert sizes[""] == sizes["another"] == sizes["vllm"], "of engines that are not known: the largest"


def test_a_plan_costs_rent_and_disks_and_rent_alone_where_its_spec_says_so(database: Database, tmp_path: Path) -> None:
    spec = KEEP_SPEC.format(keep="throughput").replace("requests_per_s: 20", "requests_per_s: 2")
    charged = planned(database, world_of(tmp_path, spec))
    nodes = sum(each.nodes for each in charged.offers)
    (size,) = {each.disk_gib for each in charged.instances}
    assert charged.disks_usd_per_hour == pytest.approx(nodes * size * 0.08 / 730)
    of_nodes = charged.rent_usd_per_hour + charged.disks_usd_per_hour
    assert charged.usd_per_hour == pytest.approx(of_nodes + charged.traffic_usd_per_hour)
    assert sum(each.usd_per_hour for each in charged.instances) == pytest.approx(of_nodes)
    free = planned(database, world_of(tmp_path, spec + "offers: {disks: false}\n"))
    assert free.disks_usd_per_hour == 0
    assert free.usd_per_hour == pytest.approx(free.rent_usd_per_hour + free.traffic_usd_per_hour)


def test_the_start_up_of_an_engine_tips_the_choice_and_is_lent_back_to_what_runs() -> None:
    templates = {name: ({f"{name}:1/n10": 1}, [{"m/serve": 10.0}]) for name in ("vllm", "torch")}
    offers = [make.offer("vllm:1/n10", "aws/a", 1.0), make.offer("torch:1/n10", "aws/a", 1.04)]
    library = make.library([make.work_class("m/serve")], templates, {name: name for name in templates})
    free = Settings(utilisation_cap=1.0, startup_minutes=6.0)
    installing = replace(free, install_minutes={"vllm": 6.0})
    for settings, running, chosen in ((free, (), "vllm"), (installing, (), "torch"), (installing, ("vllm",), "vllm")):
        there = [make.running(name, [offers[0]]) for name in running]
        route = make.route("m", {"m/serve": 1.0})
        snapshot = make.snapshot(offers, [route], {"m": 10.0}, settings=settings, instances=there)
        plan = solve(snapshot, library)
        assert check(plan, snapshot, claims_of(library, templates)) == ()
        (instance,) = plan.instances
        assert instance.template_id == instance.engines == chosen
        late = replace(snapshot, settings=replace(settings, install_minutes={"torch": 30.0, "vllm": 30.0}))
        assert ("cost" in {each.rule for each in check(plan, late)}) == (not running)


TWO = {"one": ({"big:8/n100": 1}, [{"m/serve": 10.0}]), "four": ({"small:1/n100": 4}, [{"m/serve": 10.0}])}
OFFERS = [make.offer("big:8/n100", "aws/a", 10.1), make.offer("small:1/n100", "aws/a", 2.5)]


@pytest.mark.parametrize(
    ("usd_per_gib_month", "limit", "chosen"), [(0.0, None, {"four"}), (0.73, None, {"one"}), (0.73, 10.3, set())]
)
def test_four_disks_tip_the_choice_and_budgets_hold_the_whole(
    usd_per_gib_month: float, limit: float | None, chosen: set[str]
) -> None:
    settings = Settings(utilisation_cap=1.0, guardrails=Guardrails(max_usd_per_hour=limit))
    disks = Disks({"aws": usd_per_gib_month}, {"m": 300})
    snapshot = make.snapshot(OFFERS, [make.route("m", {"m/serve": 1.0})], {"m": 10.0}, settings=settings, disks=disks)
    plan = solve(snapshot, make.library([make.work_class("m/serve")], TWO))
    assert {each.template_id for each in plan.instances} == chosen
    rent = {"one": 10.1, "four": 10.0}.get(min(chosen, default=""), 0.0)
    disks = 300 * sum(each.nodes for each in plan.offers) * usd_per_gib_month / 730
    assert plan.usd_per_hour == pytest.approx(rent + disks)
