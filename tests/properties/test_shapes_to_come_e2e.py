"""The same hand-written files through the command line and the database: what users of other systems will do."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec
import pytest

from control.db.database import open_database
from control.db.embedded import embedded_server
from control.db.libraries import PostgresLibraries
from control.planning.recipe import ListedRecipe
from control.planning.recording import decode
from control.planning.templates import build_library
from templates_lib.sources.listed_source import ListedSource, read_listed
from tests.brute_force import best_plan
from tests.e2e.conftest import environment, run_medley

FOLDER = Path(__file__).parents[1] / "data" / "shapes_to_come"
FILES = sorted(FOLDER.glob("*.json"))

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 1500, tpot_ms: 60, keep: throughput}
    workload: azure-conversation
    demand: {requests_per_s: 20}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S, L4]}
solver: {n_max: 2}
"""

Medley = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def home(short_tmp: Path) -> Iterator[Path]:
    """Its server runs all along."""
    with embedded_server(short_tmp / "shapes" / "postgres"):
        yield short_tmp / "shapes"


@pytest.fixture(scope="module")
def medley(home: Path) -> Medley:
    """The command, on a database of its own."""
    return partial(run_medley, environment(home))


def listed_of(path: Path) -> ListedRecipe:
    recipe = decode(path.read_bytes(), path.name).recipe
    assert recipe is not None
    (listed,) = recipe.sources
    assert isinstance(listed, ListedRecipe)
    return listed


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_hand_written_file_is_planned_checked_and_equals_brute_force(
    path: Path, medley: Medley, tmp_path: Path
) -> None:
    plan, snapshot = tmp_path / "plan.json", tmp_path / "snapshot.json"
    done = medley("plan", "--snapshot", path, "-o", "json", "--output", plan, "--save-snapshot", snapshot)
    assert done.returncode == 0, done.stderr
    checked = medley("check", plan, snapshot)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    document: dict[str, Any] = json.loads(plan.read_text())
    listed = listed_of(path).templates
    expected = best_plan(
        decode(path.read_bytes(), path.name).snapshot,
        {t.template().id: (t.nodes, [p.units_per_s for p in t.points]) for t in listed},
    )
    assert document["objective"] == pytest.approx(expected.objective, rel=1e-4)
    assert not document["unmet"]
    shown = {i["template_id"]: i for i in document["instances"]}
    placements = {t.template().id: msgspec.to_builtins(t.placement) for t in listed}
    assert {name: i["placement"] for name, i in shown.items()} == {name: placements[name] for name in shown}
    replayed = medley("plan", "--snapshot", snapshot, "-o", "json")
    assert replayed.returncode == 0, replayed.stderr
    again = json.loads(replayed.stdout)
    assert {k: v for k, v in again.items() if k in ("id", "instances", "offers", "flows")} == {
        k: v for k, v in document.items() if k in ("id", "instances", "offers", "flows")
    }


def test_a_lie_in_the_file_is_an_error_that_says_what_and_where(medley: Medley, tmp_path: Path) -> None:
    plan, snapshot = tmp_path / "plan.json", tmp_path / "snapshot.json"
    path = FOLDER / "shared_mesh.json"
    done = medley("plan", "--snapshot", path, "-o", "json", "--output", plan, "--save-snapshot", snapshot)
    assert done.returncode == 0, done.stderr
    document = json.loads(plan.read_text())
    document["instances"][0]["placement"]["payload"]["tp"] = 7
    document["offers"][0]["usd_per_hour"] -= 1
    plan.write_text(json.dumps(document))
    checked = medley("check", plan, snapshot)
    assert checked.returncode == 1
    assert "template_id at instances[" in checked.stdout
    assert f"price at offers[{document['offers'][0]['offer']}].usd_per_hour" in checked.stdout
    plan.write_text(plan.read_text()[:500])
    truncated = medley("check", plan, snapshot)
    assert truncated.returncode == 1
    assert "plan.json: is not a plan" in truncated.stderr
    assert "Traceback" not in truncated.stderr


def test_templates_may_be_in_a_file_of_their_own(medley: Medley, tmp_path: Path) -> None:
    document = json.loads((FOLDER / "three_legs.json").read_text())
    (tmp_path / "templates.json").write_text(json.dumps(document.pop("recipe")["listed"]))
    (tmp_path / "snapshot.json").write_text(json.dumps(document))
    arguments = ("plan", "--snapshot", tmp_path / "snapshot.json", "-o", "json", "--no-baselines")
    done = medley(*arguments, "--templates", tmp_path / "templates.json")
    assert done.returncode == 0, done.stderr
    whole = medley("plan", "--snapshot", FOLDER / "three_legs.json", "-o", "json", "--no-baselines")
    assert json.loads(done.stdout)["instances"] == json.loads(whole.stdout)["instances"]


def test_listed_templates_are_planned_with_enumerated_ones(medley: Medley, tmp_path: Path) -> None:
    spec, saved, plan = (tmp_path / name for name in ("fleet.yaml", "snapshot.json", "plan.json"))
    spec.write_text(SPEC)
    alone = medley("plan", "-f", spec, "--no-baselines", "-o", "json", "--save-snapshot", saved)
    assert alone.returncode == 0, alone.stderr
    document, listed = json.loads(saved.read_text()), json.loads((FOLDER / "three_legs.json").read_text())
    for name in ("offers", "routes", "demand"):
        document["snapshot"][name] += listed["snapshot"][name]
    document["snapshot"] |= dict.fromkeys(("version", "library_version", "cost_model_fingerprint"), "")
    saved.write_text(json.dumps(document | {"recipe": document["recipe"] | listed["recipe"]}))
    done = medley("plan", "--snapshot", saved, "-o", "json", "--output", plan, "--save-snapshot", saved)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(plan.read_text())
    assert not made["unmet"]
    legs = {leg["work_class"] for route in document["snapshot"]["routes"] for leg in route["legs"]}
    assert {name for each in made["instances"] for name in each["units_per_s"]} == legs
    assert {bool(each["stages"]) for each in made["instances"]} == {True, False}
    for command in (("check", plan, saved), ("explain", made["id"]), ("plan", "--snapshot", saved)):
        again = medley(*command)
        assert again.returncode == 0, again.stdout + again.stderr
    shown = json.loads(medley("templates", "show", made["library_version"], "-o", "json").stdout)
    assert (shown["kind"], [unit["name"] for unit in shown["units"]][-1]) == ("pipeline+listed", "listed")
    texts = [medley("templates", "show", each["template_id"]).stdout for each in made["instances"]]
    assert [" layers " in text for text in texts] == [bool(each["stages"]) for each in made["instances"]]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_database_gives_back_what_was_listed(path: Path, home: Path) -> None:
    recipe = listed_of(path)
    source = ListedSource(recipe.classes, recipe.templates)
    (batch,) = source.build(source.units(), lambda *_: None)
    with open_database(data_dir=home / "postgres") as database:
        store = PostgresLibraries(database)
        version = build_library(source, store, lambda *_: None, {})
        library = store.load(version)
        assert library.ids.tolist() == batch.ids.tolist()
        assert library.entry_units_per_s.tolist() == batch.entry_units_per_s.tolist()
        for listed in recipe.templates:
            found = store.record(version, listed.template().id)
            template, capacity = read_listed(found.record, found.nodes)
            assert template == listed.template()
            assert capacity.points == listed.points
