"""Models that share nodes, from a spec to a plan: never dearer, checked, explained, and refused where nothing can be
shared."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from control.checker import check, claims_of
from control.cli.main import app
from control.cli.plan_document import plan_document
from control.cli.plan_table import print_plan
from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.diff.target import targets
from control.fleet_file.problem import SpecError
from control.hub.gang import UnplaceableError, gang_of, placed_gang
from control.planning.recording import decode, encode
from control.planning.report import PlanReport, usd_per_hour_by_model
from control.planning.session import PlanningSession
from control.planning.shared_unit import shared_unit, used
from control.planning.templates import Templates, UnservableError, stored_template
from control.planning.world import read_world
from control.reconcile.ordering import routing, unrunnable
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan, PlannedInstance
from tests.control.planning.worlds import NOON, world_of

MODEL = """\
  - model: {model}
    name: {name}
    slo: {{ttft_ms: 2000, tpot_ms: 80, keep: {keep}}}
    workload: azure-conversation
    demand: {{requests_per_s: {rate}}}
    disaggregated: false
    aggregated: true
    share: {share}
"""
SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: many
models:
{models}clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L40S], counts: [1]}}
solver: {{n_max: 1}}
policy:
  startup_minutes: 0
{units}"""
ROUGHLY = partial(SimulatedAttainment, requests=300)
"""What becomes of promises is of interest here, not how well they are known."""
UNITS = "  units: {max_members: 4}\n"
EXAMPLE = Path(__file__).parents[3] / "examples" / "local-units.yaml"
SMALL, LARGE = "gpt-oss-20b", "phi-4-14b"
"""Two of the first fit a node, of the second one."""


def model(
    name: str,
    *,
    of: str = SMALL,
    rate: float = 0.05,
    share: str = "auto",
    keep: str = "throughput",
) -> str:
    return MODEL.format(model=of, name=name, rate=rate, share=share, keep=keep)


def spec(*models: str, units: str = UNITS) -> str:
    return SPEC.format(models="".join(models), units=units)


THREE = (model("one"), model("two", rate=0.4), model("large", of=LARGE, rate=0.2))


def session(database: Database) -> PlanningSession:
    store = PostgresLibraries(database)
    plans = PostgresPlans(database)
    return PlanningSession(store, plans, lambda *_: None, time.perf_counter, attainment=ROUGHLY)


def planned(database: Database, folder: Path, text: str) -> tuple[PlanReport, Templates]:
    opened = session(database)
    recording, templates = opened.record(world_of(folder, text), NOON)
    return opened.plan(recording, templates, baselines=True), templates


def members_of(plan: Plan) -> Iterator[set[str]]:
    for each in plan.instances:
        if unit := shared_unit(each):
            yield {member.model for member in unit.members}


def unit_of(report: PlanReport) -> PlannedInstance:
    (found,) = (each for each in report.plan.instances if shared_unit(each))
    return found


def checked(report: PlanReport, library: Library) -> Plan:
    plan = report.plan
    assert check(plan, report.snapshot, claims_of(library, (i.template_id for i in plan.instances))) == ()
    assert not plan.unmet
    return plan


def test_models_of_little_demand_share_a_node_and_the_plan_says_all_of_it(
    module_database: Database, tmp_path: Path
) -> None:
    alone, without = planned(module_database, tmp_path, spec(*THREE, units=""))
    assert not without.library.limits
    assert "muxserve" not in alone.baselines
    report, templates = planned(module_database, tmp_path, spec(*THREE))
    plan, dedicated = checked(report, templates.library), checked(alone, without.library)
    assert plan.usd_per_hour < 0.7 * dedicated.usd_per_hour
    (members,) = members_of(plan)
    assert members == {"one", "two"}
    (row,) = (each for each in plan_document(report)["instances"] if "unit" in each)
    rates = {each["model"]: each["requests_per_s"] for each in row["unit"]["members"]}
    assert all(rates[name] >= rate for name, rate in (("one", 0.05), ("two", 0.4)))
    assert row["model"] == "one+two"
    rents = {each["model"]: each["usd_per_hour"] for each in row["unit"]["members"]}
    own = usd_per_hour_by_model(dedicated, alone.snapshot)
    assert sum(rents.values()) == row["usd_per_hour"]
    assert 0 < rents["one"] < rents["two"] <= own["two"] * (1 + 1e-9)
    assert rents["one"] <= own["one"] * (1 + 1e-9)
    by_model = usd_per_hour_by_model(plan, report.snapshot)
    assert by_model.keys() == {"one", "two", "large"}
    assert sum(by_model.values()) == pytest.approx(plan.usd_per_hour)
    capacity = stored_template(PostgresLibraries(module_database), row["template_id"]).capacity
    assert capacity.limits == templates.library.limits[row["template_id"]]
    assert 0 < max(used(capacity, row["units_per_s"]).values()) <= 1 + 1e-9
    # The paper's greedy has the same units to choose from, and each model once.
    assert report.baselines["muxserve"].usd_per_hour >= plan.usd_per_hour * (1 - plan.gap) - 1e-9
    assert check(replace(plan, usd_per_hour=0.9 * plan.usd_per_hour), report.snapshot)
    explained = session(module_database).explain(plan, report.snapshot, templates.library)
    assert explained.sharing is not None
    assert explained.sharing.members == (("one", "two"),)
    assert explained.sharing.without_usd_per_hour == pytest.approx(dedicated.usd_per_hour, rel=0.01)
    assert explained.sharing.alone == ()


def test_what_keeps_a_model_alone_is_said(module_database: Database, tmp_path: Path) -> None:
    """Of `busy` there are units, of which as many would be needed as of its own nodes; `large` fits beside nobody."""
    models = (model("busy", rate=9.0), model("two", rate=0.4), model("three"))
    report, templates = planned(module_database, tmp_path, spec(*models))
    plan = checked(report, templates.library)
    explained = session(module_database).explain(plan, report.snapshot, templates.library).sharing
    assert explained is not None
    for each in explained.alone:
        assert each.fits
        assert each.more_usd_per_hour is not None
        assert each.more_usd_per_hour >= -plan.gap * plan.usd_per_hour
    assert {name for members in members_of(plan) for name in members} | {each.model for each in explained.alone} == {
        "busy", "two", "three"
    }  # fmt: skip
    lonely = (
        *THREE[:2],
        model("large", of=LARGE, rate=0.2)
        .replace("    aggregated: true\n", "")
        .replace("disaggregated: false", "disaggregated: true"),
    )
    report, templates = planned(module_database, tmp_path, spec(*lonely))
    explained = session(module_database).explain(report.plan, report.snapshot, templates.library).sharing
    assert explained is not None
    assert [(each.model, each.fits) for each in explained.alone] == [("large", False)]


def test_a_plan_is_refused_that_promises_more_than_the_limits_of_a_unit_allow(
    module_database: Database, tmp_path: Path
) -> None:
    report, templates = planned(module_database, tmp_path, spec(*THREE))
    instance = unit_of(report)
    most = stored_template(PostgresLibraries(module_database), instance.template_id).capacity.points[0].units_per_s
    claims = claims_of(templates.library, [instance.template_id])
    for units in (most, {name: 1.01 * rate for name, rate in most.items() if name.startswith("two")}):
        wrong = replace(report.plan, instances=(replace(instance, units_per_s=dict(units)),))
        assert "template" in {each.rule for each in check(wrong, report.snapshot, claims)}
    alone = {name: rate for name, rate in most.items() if name.startswith("two")}
    right = replace(report.plan, instances=(replace(instance, units_per_s=alone),))
    assert "template" not in {each.rule for each in check(right, report.snapshot, claims)}


def test_a_recorded_plan_with_units_is_made_again(module_database: Database, tmp_path: Path) -> None:
    opened = session(module_database)
    recording, templates = opened.record(world_of(tmp_path, spec(*THREE)), NOON)
    first = opened.plan(recording, templates, baselines=False).plan
    again, found = opened.replay(decode(encode(recording), "file"))
    assert opened.plan(again, found, baselines=False).plan.id == first.id


@pytest.mark.parametrize("rate", [0.01, 1.0, 6.0])
def test_a_plan_with_units_is_never_dearer_than_without(module_database: Database, tmp_path: Path, rate: float) -> None:
    models = [model("one", rate=rate), model("two", rate=rate / 3), model("large", of=LARGE, rate=rate / 9)]
    alone, _ = planned(module_database, tmp_path, spec(*models, units=""))
    report, templates = planned(module_database, tmp_path, spec(*models))
    plan = checked(report, templates.library)
    assert plan.usd_per_hour * (1 - plan.gap) <= alone.plan.usd_per_hour + 1e-9


def test_a_model_that_never_shares_or_promises_a_percentile_is_alone(module_database: Database, tmp_path: Path) -> None:
    models = (*THREE, model("apart", share="never"), model("promised", keep="{percentile: 90}", rate=0.5))
    report, templates = planned(module_database, tmp_path, spec(*models))
    plan = checked(report, templates.library)
    assert set().union(*members_of(plan)) == {"one", "two"}
    assert {"apart", "promised"} <= {each.model for each in plan.instances}
    assert {name.partition("/")[0] for name in plan.attainment} == {"promised"}
    assert any("promised" in note and "percentile" in note for note in report.basis.notes)


def test_a_model_that_only_shares_has_no_instance_of_its_own(module_database: Database, tmp_path: Path) -> None:
    busy = model("busy", rate=9.0, share="only")
    report, templates = planned(module_database, tmp_path, spec(busy, model("two")))
    plan = checked(report, templates.library)
    assert all(members == {"busy", "two"} for members in members_of(plan))
    assert all(shared_unit(each) for each in plan.instances if "busy/aggregated" in each.units_per_s)


def test_what_cannot_share_says_so(module_database: Database, tmp_path: Path) -> None:
    for text, message in (
        (spec(model("one", share="only"), model("two"), units=""), "policy.units"),
        (spec(model("one", share="only", keep="{percentile: 99}"), model("two")), "throughput"),
        (spec(model("one", share="only") + "    engine: vllm\n", model("two")), "engine torch"),
        (spec(model("one", share="often")), "share"),
        (spec(*THREE, units="  units: {max_members: 1}\n"), "max_members"),
        (spec(model("one", share="only"), model("two", share="never")), "no other model"),
    ):
        with pytest.raises(SpecError, match=message):
            world_of(tmp_path, text)
    both = spec(*(model(name, of=LARGE, share="only") for name in ("one", "two")))
    with pytest.raises(UnservableError, match="one: `share: only`"):  # each of them fills a node
        planned(module_database, tmp_path, both)


def test_units_on_this_machine_are_started_and_gateways_know_how_they_serve(module_database: Database) -> None:
    world = read_world(EXAMPLE)
    assert world.never_started == ()
    assert not any("policy.units" in note for note in world.notes)
    opened = session(module_database)
    recorded, templates = opened.record(world, NOON)
    plan = opened.plan(recorded, templates, baselines=False).plan
    assert list(members_of(plan)) == [{"chat", "helper"}]
    assert unrunnable(world, plan) == ()
    (target,) = targets(plan)
    gang = gang_of(target.template)
    assert gang.pool_bytes > 0
    served = routing(world, plan, datetime.fromisoformat(NOON), lambda place: place).routed([("i1", target)])
    members = {each.id: {(m.id, *m.units_per_s) for m in each.members} for each in served}
    ids = {executor.component: gang.member("i1", executor.id) for executor in gang.executors}
    assert members == {name: {(ids[name], f"{name}/aggregated")} for name in ("chat", "helper")}


def test_units_elsewhere_are_not_started_and_nothing_acts_on_plans_that_may_have_some(
    module_database: Database, tmp_path: Path
) -> None:
    world = world_of(tmp_path, spec(*THREE))
    assert any("policy.units" in reason for reason in world.never_started)
    assert not world_of(tmp_path, spec(*THREE, units="")).never_started
    report, _ = planned(module_database, tmp_path, spec(*THREE))
    assert any("policy.units" in reason for reason in unrunnable(world, report.plan))
    instance = unit_of(report)
    template = stored_template(PostgresLibraries(module_database), instance.template_id).template
    with pytest.raises(UnplaceableError, match="share"):
        placed_gang(template)
    payload = template.placement.payload
    for wrong in ({"pool_bytes": -1}, {"executors": [e | {"slots": [[0], [0]]} for e in payload["executors"]]}):
        broken = replace(template, placement=replace(template.placement, payload=payload | wrong))
        with pytest.raises(UnplaceableError):
            placed_gang(broken)


def test_commands_show_units_and_what_they_save(
    module_database: Database, module_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    report, _ = planned(module_database, tmp_path, spec(*THREE))
    instance = unit_of(report)

    def ran(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--database-url", module_database_url])
        assert done.exit_code == 0, done.output
        return done.stdout

    (listed,) = json.loads(ran("units", "list", report.plan.id[:12], "-o", "json"))
    assert (listed["template_id"], listed["count"]) == (instance.template_id, 1)
    assert set(listed["used"]) == {"time", "KV cache"}
    shown = json.loads(ran("units", "show", report.plan.id[:12], instance.template_id[:6], "-o", "json"))
    assert [each["model"] for each in shown["members"]] == ["one", "two"]
    assert sum(each["usd_per_hour"] for each in listed["members"]) == listed["usd_per_hour"]
    assert all(shown["alone"][f"{each['model']}/aggregated"] >= each["requests_per_s"] for each in shown["members"])
    for text in (ran("units", "list", report.plan.id), ran("units", "show", report.plan.id, instance.template_id)):
        assert all(name in text for name in ("one", "two"))
    assert "one + two" in ran("explain", report.plan.id)
    missing = CliRunner().invoke(app, ["units", "show", report.plan.id, "ff00", "--database-url", module_database_url])
    assert missing.exit_code == 1
    assert "ff00" in missing.output
    buffer = StringIO()
    print_plan(report, Console(file=buffer, width=160))
    assert "two: " in buffer.getvalue()


def test_units_that_prices_ask_for_are_made_where_not_all_are_listed(tmp_path: Path) -> None:
    """An H100 has room for five of the smaller models, and there are 1,573 units of twelve."""
    names = [f"m{number:02d}" for number in range(12)]
    text = spec(*(model(name, rate=0.02) for name in names), units="  units: {max_members: 8}\n")
    text = text.replace("gpus: [L40S]", "gpus: [H100]")
    text = text.replace("solver:", "  - {cloud: runpod, gpus: [H100], counts: [1]}\nsolver:")
    world = world_of(tmp_path, text)
    assert world.also
    of_config = {
        node.id: {each.members for each in world.also if each.config == node.id} for node in world.recipe.nodes
    }
    assert {each.config for each in world.also} <= of_config.keys()
    assert len(of_config) == 2, "nodes of two networks, which units do not use"
    assert len(set(map(frozenset, of_config.values()))) == 1
    sizes = {len(each.members) for each in world.also}
    assert min(sizes) >= 2
    assert max(sizes) == 5
    assert all(
        list(each.members) == sorted(set(each.members)) and set(each.members) <= set(names) for each in world.also
    )
    assert not world_of(tmp_path, spec(*THREE)).also
