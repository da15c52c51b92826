"""What `medley plan` says of a plan, as tables, as a document and as a chart."""

import dataclasses
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from control.cli.cost_chart import costs
from control.cli.output import Output, render
from control.cli.plan_document import plan_document
from control.cli.plan_picture import save_picture
from control.cli.plan_table import print_plan
from control.planning.report import Basis, PlanReport
from templates_lib.values.engines import ENGINES
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Market
from templates_lib.values.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.values.plan import Attained, Flow, Plan, PlannedInstance, PlannedOffer, Reason
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import Software
from templates_lib.values.work import Demand, Leg, Route

ID = "ab" * 16


def placement() -> Placement:
    first = StageNodes("L4:4/n25", 2, 0.5, 4, 1, 1, 1, 0, 512, 100)
    second = StageNodes("L40S:1/n10", 1, 1.0, 1, 1, 1, 1, 0, 512, 100)
    stages = Stage(0, 40, True, False, (first,)), Stage(40, 24, False, True, (second,))
    return Placement("pipeline", 1, msgspec.json.decode(msgspec.json.encode(PipelinePlacement(stages))))


def plan() -> Plan:
    instance = PlannedInstance(
        ID, "m", "prefill", "aws/a", Market.ON_DEMAND, 2, 0, {"L4:4/n25": 2, "L40S:1/n10": 1}, {"m/prefill": 3000.0},
        12.0, placement(),
    )  # fmt: skip
    return Plan(
        "deadbeef" * 4, "v", "l", "medley", (instance,), (PlannedOffer("aws/a/g6/on-demand", "L4:4/n25", 4, 0, 3.0),),
        (Flow("m/d", ("aws/a", "aws/b"), 10.0, 1.5),), 13.5, 12.0, 1.5, 1.2, 0.0, {}, 14.7, 14.6, 0.007, 0.4,
        "feasible", reasons=(Reason("binding", "every L4 of aws/a is used", "aws/a", 0.25),),
    )  # fmt: skip


def report(**changes: object) -> PlanReport:
    snapshot = Snapshot(
        "v", "2026-11-21T00:00:00+00:00", (), (), (), (), (Route("m/d", "m", "chat", (Leg("m/prefill", 1.0),)),),
        (Demand("m", "chat", 10.0),), Settings(), "l", "c",
    )  # fmt: skip
    dear = dataclasses.replace(plan(), usd_per_hour=27.0)
    cheap_but_short = dataclasses.replace(plan(), usd_per_hour=5.0, unmet={"m/chat": 6.0})
    basis = Basis("estimated", ("AWS price list",), ("2025-11-30", "2026-05-20"), ("aws/a/derived-L4x2/on-demand",))
    made = PlanReport(
        "small", snapshot, plan(), {"homo": dear, "cauchy": cheap_but_short}, basis, {}, {"m/prefill": 1.0}
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def printed(made: PlanReport, width: int = 150) -> str:
    text = StringIO()
    print_plan(made, Console(file=text, width=width))
    return text.getvalue()


def test_the_document_reads_back_as_the_plan_and_has_what_programs_need() -> None:
    document = plan_document(report())
    encoded = render(document, Output.JSON).encode()
    assert msgspec.json.decode(encoded, type=Plan) == plan()
    read = msgspec.json.decode(encoded)
    assert {"usd_per_hour", "init_usd", "traffic_usd_per_hour", "unmet", "bound", "gap", "solve_s"} <= read.keys()
    assert read["baselines"]["cauchy"]["unmet"] == {"m/chat": 6.0}
    (instance,) = read["instances"]
    assert instance["tokens_per_s"] == 6000.0, "of both copies, as usd_per_hour is"
    assert [(s["first_layer"], s["last_layer"]) for s in instance["stages"]] == [(0, 39), (40, 63)]
    assert instance["stages"][0]["nodes"][0]["tp"] == 4


def test_disks_are_shown_as_part_of_the_cost() -> None:
    assert "disks" not in printed(report()), "where none are charged"
    made = report()
    made = dataclasses.replace(made, plan=dataclasses.replace(made.plan, disks_usd_per_hour=0.125))
    assert "+ disks 0.12 +" in printed(made)
    assert plan_document(made)["disks_usd_per_hour"] == 0.125


def test_yaml_holds_the_same() -> None:
    assert "cheapest_complete_baseline: homo" in render(plan_document(report()), Output.YAML)


def test_the_saving_is_over_the_cheapest_baseline_that_serves_the_demand() -> None:
    assert report().cheapest_complete_baseline == "homo"
    text = printed(report())
    assert "saves 50.0% against homo" in text
    cauchy = next(line for line in text.splitlines() if line.startswith("cauchy"))
    assert "60.0%" in cauchy
    assert " - " in cauchy, "no saving over a fleet that serves less"


def test_a_plan_that_saves_nothing_does_not_say_it_saves() -> None:
    equal = {"homo": plan()}
    assert "The plan costs the same as homo" in printed(report(baselines=equal))
    cheaper = {"homo": dataclasses.replace(plan(), usd_per_hour=10.8)}
    assert "The plan costs 25.0% more than homo" in printed(report(baselines=cheaper))


def test_a_baseline_that_breaks_a_guardrail_is_no_alternative() -> None:
    made = report(broken={"homo": ("spot_share",)})
    assert made.cheapest_complete_baseline is None
    assert "no saving can be stated" in printed(made)
    assert plan_document(made)["baselines"]["homo"]["breaks"] == ("spot_share",)


def test_tables_say_what_runs_where_and_what_it_rests_on() -> None:
    text = printed(report())
    for part in (
        "0-39: 2 x L4:4/n25 (tp4)", "40-63: 1 x L40S:1/n10", "6,000", "All demand is met",
        "Within 0.70% of the optimum (tolerance 0.1% not met)",
        "every L4 of aws/a is used", "medley explain deadbeefdead", "estimated",
        "2025-11-30 to 2026-05-20", "derived-L4x2",
    ):  # fmt: skip
        assert part in text


def test_what_was_simulated_is_said_with_its_seed_and_how_well_it_is_known() -> None:
    kept, missed = Attained(0.9941, 99.0, 24_000, 7), Attained(0.982, 99.0, 400, 7)
    made = dataclasses.replace(plan(), attainment={"m/prefill": kept, "m/decode": missed})
    text = printed(report(plan=made))
    rows = [line.split() for line in text.splitlines()]
    assert "at the planned rates, seed 7" in " ".join(text.split())
    assert ["m/prefill", "99", "%", "99.41", "%", "0.06", "24,000"] in rows
    assert ["m/decode", "99", "%", "98.20", "%", "0.50", "400"] in rows  # sqrt(0.99 x 0.01 / 400)


def test_a_narrow_terminal_gets_a_list_of_unbroken_lines() -> None:
    text = printed(report(), width=80)
    assert "2 x m/prefill, aws/a on-demand, 6,000 tokens/s, 12.00 $/h\n    0-39: 2 x L4:4/n25 (tp4)\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_instances_of_two_engines_are_told_apart() -> None:
    first = plan().instances[0]
    by = [dataclasses.replace(first, software=Software("m", "r", "bf16", name, "lockstep-v1")) for name in ENGINES]
    text = printed(report(plan=dataclasses.replace(plan(), instances=tuple(by))))
    assert all(f"40-63: 1 x L40S:1/n10 by {name} " in text for name in ENGINES)


def test_unmet_demand_is_loud() -> None:
    text = printed(report(plan=dataclasses.replace(plan(), unmet={"m/chat": 2.5}, status="partial")))
    assert "DEMAND IS NOT MET: m/chat misses 2.5 requests/s" in text


def test_a_fleet_that_runs_as_planned_is_not_changed() -> None:
    running = tuple(Instance(str(i), ID, "aws/a", Market.ON_DEMAND, "ready", ()) for i in range(2))
    kept = dataclasses.replace(plan(), instances=(dataclasses.replace(plan().instances[0], running=2),))
    snapshot = dataclasses.replace(report().snapshot, instances=running)
    assert report().changes_fleet
    assert not report(plan=kept, snapshot=snapshot).changes_fleet
    assert report(plan=kept, snapshot=dataclasses.replace(snapshot, instances=running * 2)).changes_fleet


def test_costs_of_models_count_their_traffic() -> None:
    assert costs(report())["medley"] == {"m": 13.5}


def test_the_chart_is_drawn_as_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    save_picture(report(), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_an_empty_plan_is_printed() -> None:
    empty = dataclasses.replace(plan(), instances=(), offers=(), flows=(), usd_per_hour=0.0, rent_usd_per_hour=0.0)
    assert "Cost 0.00" in printed(report(plan=empty))
