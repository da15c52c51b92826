"""Any-to-any models of a spec: planned beside text models, stored, explained, checked; and specs that are wrong."""

import json
import time
from dataclasses import replace
from datetime import datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from control.actions.apply_spec import WantedFleet, apply_spec
from control.actions.context import ActionContext
from control.actions.refusal import NotNowError
from control.checker import check
from control.checker.claims import claims_of
from control.cli.plan_document import plan_document
from control.cli.plan_table import print_plan
from control.cli.template_table import print_template
from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.fleet_file.document import parse
from control.fleet_file.problem import SpecError
from control.hub.gang import UnplaceableError, gang_of
from control.lifecycle.fleet import FleetMode
from control.planning.executor_rates import ExecutorRates
from control.planning.graph_sources import UNCERTIFIED
from control.planning.recording import decode, encode
from control.planning.session import PlanningSession
from control.planning.templates import UnservableError, obtain, stored_template
from control.planning.what_if import DemandChange, WhatIf, supposed
from control.reconcile.fleet_world import refuse_paths
from templates_lib.apps.graph_app import app_of
from templates_lib.graphs.catalogue import graph_facts
from templates_lib.models.node_disk import disk_gib
from templates_lib.sources.graph_record import CELL, EXECUTOR
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.values.hardware import node_config_from_id
from tests.control.fleet.fleets import template as layers_template
from tests.control.planning.worlds import NOON, world_of

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: pictures
apps:
  - name: vl
    graph: qwen2.5-vl-7b
    request_types:
      - {type: image-text-to-text, share: 0.7, slo: {ttft_ms: 4000, tpot_ms: 60}}
      - {type: text-to-text, share: 0.3, slo: {ttft_ms: 3000, tpot_ms: 60}}
    demand: {requests_per_s: 12}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L4, L40S]}
"""
TEXT = """\
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 3000, tpot_ms: 100, keep: throughput}
    workload: azure-conversation
    demand: {requests_per_s: 5}
apps:
"""
BESIDE_TEXT = SPEC.replace("apps:\n", TEXT) + "solver: {n_max: 1}\n"


def session_of(database: Database) -> PlanningSession:
    return PlanningSession(PostgresLibraries(database), PostgresPlans(database), lambda *_: None, time.perf_counter)


def test_an_app_is_planned_beside_a_text_model_stored_checked_and_shown(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, BESIDE_TEXT)
    made, templates = session.record(world, NOON)
    recording, _ = session.replay(decode(encode(made), "pictures.json"))
    assert recording.snapshot == made.snapshot
    report = session.plan(recording, templates, baselines=True)
    plan = report.plan
    assert not plan.unmet
    claims = claims_of(templates.library, [each.template_id for each in plan.instances])
    assert check(plan, report.snapshot, claims) == ()
    assert session.store.show(plan.library_version).kind == "pipeline+executor+cell"
    assert {each.model for each in plan.instances} == {"gpt-oss-20b", "vl"}
    own = [each for each in plan.instances if each.model == "vl"]
    assert {"vision", "language"} == {name for each in own for name in each.phase.split("+")}
    served = {kind: sum(f.requests_per_s for f in plan.flows if f.route.startswith(f"vl/{kind}/"))
              for kind in ("image-text-to-text", "text-to-text")}  # fmt: skip
    assert served == {"image-text-to-text": pytest.approx(8.4), "text-to-text": pytest.approx(3.6)}

    size = disk_gib([app_of(world.fleet.graph_apps[0]).graph])
    assert {each.disk_gib for each in own} == {size}
    rent = sum(offer.nodes * offer.usd_per_hour for offer in plan.offers)
    assert plan.disks_usd_per_hour >= sum(each.count for each in own) * size * 0.08 / 730 > 0
    settings = report.snapshot.settings  # everything is new: each node is paid for while it starts
    assert plan.init_usd >= settings.init_factor * (rent + plan.disks_usd_per_hour) * (1 - 1e-9) > 0
    smaller = tuple(replace(i, disk_gib=i.disk_gib - 10) if i.model == "vl" else i for i in plan.instances)
    assert "disks" in {each.rule for each in check(replace(plan, instances=smaller), report.snapshot, claims)}

    assert plan.reasons[0].kind == UNCERTIFIED
    assert not plan.attainment
    explanation = session.explain(plan, report.snapshot, templates.library)
    assert explanation.shortage is None
    executors = [e for each in plan_document(report)["instances"] for e in each.get("executors", ())]
    assert {name for each in executors for name in each["components"]} == {"vision", "language"}
    text = StringIO()
    print_plan(report, Console(file=text, width=200))
    print_template(stored_template(session.store, own[0].template_id), Console(file=text, width=200))
    assert "vision" in text.getvalue()
    with pytest.raises(UnplaceableError, match="are not served yet"):
        gang_of(stored_template(session.store, own[0].template_id).template)


def test_an_app_alone_has_a_library_of_executors_and_cells_that_is_built_once(
    database: Database, tmp_path: Path
) -> None:
    session, world = session_of(database), world_of(tmp_path, SPEC)
    first = obtain(world.sources, session.store, session.progress)
    info = session.store.show(first.library.version)
    assert info.kind == f"{EXECUTOR}+{CELL}"
    assert info.kept == first.library.size
    assert obtain(world_of(tmp_path, SPEC).sources, session.store, session.progress).library.version == info.version
    other = world_of(tmp_path, SPEC.replace("share: 0.7", "share: 0.6").replace("share: 0.3", "share: 0.4"))
    assert obtain(other.sources, session.store, session.progress).library.version != info.version


def test_it_cannot_be_started_and_says_so(tmp_path: Path) -> None:
    world = world_of(tmp_path, SPEC)
    (why,) = world.never_started
    assert "vl" in why
    assert why in world.notes


def test_only_to_observe_it_is_applied(database: Database, tmp_path: Path) -> None:
    act = ActionContext(database, datetime.fromisoformat(NOON), "cli:me", "a test", "trace-1")
    world = world_of(tmp_path, SPEC)
    with pytest.raises(NotNowError, match="vl"):
        apply_spec(act, WantedFleet(world, SPEC, "", FleetMode.AUTO), None)
    assert apply_spec(act, WantedFleet(world, SPEC, ""), None).mode is FleetMode.OBSERVE


def test_templates_of_apps_are_units_whose_executors_sustain_their_points(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, SPEC)
    made, known = obtain(world.sources, session.store, session.progress), ExecutorRates(world.sources)
    for stored in (stored_template(session.store, each.decode()) for each in made.library.ids.tolist()):
        ((config, _),) = stored.template.nodes.items()
        executors, rates = unit_of(stored.template).executors, known.of(stored.template)
        devices = [device for each in executors for device in each.share.devices]
        assert sorted(set(devices)) == sorted(devices)
        assert max(devices) < node_config_from_id(config).gpu_count
        assert rates.keys() == {each.id for each in executors}
        for point in stored.capacity.points:
            for work, units in point.units_per_s.items():
                assert units <= sum(own.get(work, 0.0) for own in rates.values()) * (1 + 1e-9)
    assert known.of(layers_template()) == {}


def test_its_demand_can_be_supposed_to_be_another(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, SPEC)
    recording, _ = session.record(world, NOON)
    change = WhatIf(demand=(DemandChange("vl", requests_per_s=24.0),))
    found = supposed(recording.snapshot, change, world.fleet.every_app)
    assert {each.request_type: each.requests_per_s for each in found.demand} == {
        "image-text-to-text": pytest.approx(16.8),
        "text-to-text": pytest.approx(7.2),
    }


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("graph: qwen2.5-vl-7b", "graph: internvl3-38b", ("language", "GiB", "L4:1/")),
        ("{ttft_ms: 4000, tpot_ms: 60}", "{ttft_ms: 4000, tpot_ms: 0.01}", ("image-text-to-text", "objective")),
    ],
)
def test_what_no_node_serves_is_said_with_the_component_or_the_type(
    database: Database, tmp_path: Path, old: str, new: str, named: tuple[str, ...]
) -> None:
    session = session_of(database)
    small = SPEC.replace("gpus: [L4, L40S]", "gpus: [L4], counts: [1]")
    world = world_of(tmp_path, small.replace(old, new))
    with pytest.raises(UnservableError) as caught:
        session.record(world, NOON)
    assert all(part in str(caught.value) for part in ("vl", *named))


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ("graph: qwen2.5-vl-7b", "graph: qwen2.5-vl-7", 6, "qwen2.5-vl-7b"),
        ("graph: qwen2.5-vl-7b", "graph: own.json", 6, "own.json"),
        ("graph: qwen2.5-vl-7b", "graph: mamba.json", 6, "model_type"),
        ("type: image-text-to-text", "type: image-to-text", 8, "image-text-to-text"),
        ("share: 0.7", "share: 0.6", 7, "0.9"),
        ("share: 0.7", "share: 0", 8, "share"),
        (", slo: {ttft_ms: 3000, tpot_ms: 60}}", "}", 9, "slo"),
        ("slo: {ttft_ms: 3000, tpot_ms: 60}", "slo: {ttft_ms: 3000}", 9, "tpot_ms"),
        ("slo: {ttft_ms: 3000, tpot_ms: 60}", "slo: {ttft_ms: 3000, tpot_ms: 60, image_s: 2}", 9, "image_s"),
        ("slo: {ttft_ms: 3000, tpot_ms: 60}", "slo: {ttft: 3000, tpot_ms: 60}", 9, "ttft_ms"),
        ("type: text-to-text", "type: image-text-to-text", 7, "image-text-to-text"),
        ("demand: {requests_per_s: 12}", "demand: metered", 5, "weights"),
        ("    demand:", "    together: [vision+languge]\n    demand:", 10, "language"),
        ("    demand:", "    together: [vision]\n    demand:", 10, "language"),
        ("clouds:", "policy: {replicas: {vl/visoin: {max: 3}}}\nclouds:", 11, "vl/vision"),
        ("slo: {ttft_ms: 3000", "workload: servegen-mm-imag, slo: {ttft_ms: 3000", 9, "servegen-mm-image"),
        ("share: 0.7,", "share: 0.7, lengths: {image_size: '896'},", 8, "image_size"),
        ("share: 0.7,", "share: 0.7, lengths: {image_size: 4x4000},", 8, "narrow"),
        ("share: 0.7,", "share: 0.7, lengths: {image_size: 9x9, tokens_per_image: 3},", 8, "tokens_per_image"),
        ("apps:", "models: []\napps:", None, None),
        ("apps:", TEXT.replace("gpt-oss-20b", "gpt-oss-20b\n    name: vl-text-to-text"), 1, "vl-text-to-text"),
    ],
)
def test_a_spec_that_is_wrong_is_refused_at_its_line_with_the_nearest_name(
    tmp_path: Path, old: str, new: str, line: int | None, named: str | None
) -> None:
    (tmp_path / "mamba.json").write_text(json.dumps({"model_type": "mamba"}))
    assert old in SPEC
    text = SPEC.replace(old, new, 1)
    if line is None:
        assert world_of(tmp_path, text).fleet.graph_apps
        return
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, text)
    (problem,) = caught.value.problems
    assert (problem.line, str(named) in problem.message) == (line, True), problem


def test_a_fleet_without_models_and_apps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="apps"):
        world_of(tmp_path, SPEC[: SPEC.index("apps:")] + SPEC[SPEC.index("clouds:") :])


def test_a_config_of_one_s_own_is_read_beside_the_spec_and_not_over_the_network(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(graph_facts("qwen2.5-vl-7b")["config"]))
    text = SPEC.replace("graph: qwen2.5-vl-7b", "graph: own.json")
    (app,) = world_of(tmp_path, text).fleet.graph_apps
    assert app.graph == "own"
    with pytest.raises(SpecError, match="path"):
        refuse_paths(parse(text, "sent.yaml"))


def test_lengths_are_the_means_of_a_shape_with_columns_for_images(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("input_tokens,output_tokens,images,image_tokens\n100,10,1,500\n300,30,3,2500\n")
    text = SPEC.replace("share: 0.7,", "share: 0.7, workload: own.csv,")
    (app,) = world_of(tmp_path, text).fleet.graph_apps
    lengths = app.types[0].lengths
    assert (lengths.prompt_tokens, lengths.output_tokens) == (200, 20)
    assert (lengths.images, lengths.tokens_per_image) == (2, 750)
    assert lengths.clip_s == app.types[1].lengths.clip_s


def test_the_size_of_an_image_is_counted_as_its_model_does(tmp_path: Path) -> None:
    text = SPEC.replace("share: 0.7,", "share: 0.7, lengths: {images: 2, image_size: 896x896},")
    (app,) = world_of(tmp_path, text).fleet.graph_apps
    assert (app.types[0].lengths.images, app.types[0].lengths.tokens_per_image) == (2, 1024)
    assert app_of(app).types[0].work["vision"].units == 2048
    (other,) = world_of(tmp_path, text.replace("qwen2.5-vl-7b", "internvl2.5-26b")).fleet.graph_apps
    assert other.types[0].lengths.tokens_per_image == 1280


def test_bounds_on_replicas_keep_every_template_of_the_app(tmp_path: Path) -> None:
    text = SPEC.replace("clouds:", "policy: {replicas: {vl/vision: {max: 3}}}\nclouds:")
    assert {each.unpruned for each in world_of(tmp_path, text).graphs} == {("vl",)}
