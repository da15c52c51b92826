"""A kind of templates is a row of two registries: a library of two sources goes from its recipe to what people see."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from control.checker import check
from control.cli.plan_document import plan_document
from control.cli.template_table import print_template
from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.diff.target import targets
from control.hub.gang import UnplaceableError, gang_of
from control.planning.recipe import ListedRecipe, Recipe
from control.planning.recording import Recording, decode, encode
from control.planning.session import PlanningSession
from control.planning.source_kinds import SOURCE_KINDS, SourceKind
from control.planning.templates import UnservableError, build_templates, obtain, stored_template
from control.planning.world import World
from control.simulator.serving.plan_timeline import timeline_of_plan
from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.sources.placement_kinds import PLACEMENT_KINDS, PlacementKind, one_executor
from templates_lib.sources.recertified_source import RecertifiedSource
from templates_lib.values.placement import Placement, Stage, StageNodes, UnitPlacement
from templates_lib.values.template import Capacity, OperatingPoint, ServingTemplate, Software, template_id
from templates_lib.values.work import WorkClass
from tests.control.planning.worlds import NOON, world_of

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
DECODE = "gpt-oss-20b/decode"


@dataclass(frozen=True, slots=True)
class WholeRecipe:
    """A model that is whole on one node: a toy, which believes what it is given."""

    software: Software
    work_class: WorkClass
    config: str
    layers: int
    units_per_s: float
    """At an objective of a second; in proportion at others."""

    @property
    def parameters(self) -> dict[str, float]:
        return {"layers": float(self.layers)}

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        return {self.work_class.id: 1.0}

    @property
    def template(self) -> ServingTemplate:
        s, nodes = self.software, {self.config: 1}
        placement = Placement("whole", 1, {"config": self.config, "layers": self.layers})
        parts = (s.model, s.model_revision, s.dtype, s.engine, s.dispatch, nodes, placement, s.served_as)
        return ServingTemplate(template_id(*parts), *parts)

    @property
    def sustains(self) -> float:
        return self.units_per_s * self.work_class.slo_share_ms / 1000


class WholeSource:
    kind = "whole"
    cost_model_fingerprint = "belief"

    def __init__(self, recipe: WholeRecipe) -> None:
        self.recipe = recipe
        self.configs, self.classes = (recipe.config,), (recipe.work_class,)
        self.engines = (recipe.software.engine,)

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(msgspec.json.encode(self.recipe), digest_size=16).hexdigest()

    def units(self) -> tuple[str, ...]:
        return ("whole",)

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        for unit in units:
            only = np.zeros(1, dtype=np.int32)
            ids, nodes = np.array([self.recipe.template.id.encode()], dtype="S32"), np.ones((1, 1), dtype=np.uint8)
            entry = (only, only, only.astype(np.int16), np.array([self.recipe.sustains]), only.astype(np.int16))
            yield TemplateBatch(unit, 1, 1, ids, nodes, *entry, records=(msgspec.json.encode(self.recipe),))
            progress(unit, 1, 1)

    def work_class_of(self, record: bytes) -> str:
        return msgspec.json.decode(record, type=WholeRecipe).work_class.id

    def engine_of(self, record: bytes) -> str:
        return msgspec.json.decode(record, type=WholeRecipe).software.engine

    def recertified(self, record: bytes) -> tuple[bytes, float] | None:
        now = replace(msgspec.json.decode(record, type=WholeRecipe), work_class=self.recipe.work_class)
        return msgspec.json.encode(now), now.sustains


def read_whole(record: bytes, nodes: dict[str, int]) -> tuple[ServingTemplate, Capacity]:
    found = msgspec.json.decode(record, type=WholeRecipe)
    assert found.template.nodes == nodes
    points = (OperatingPoint({found.work_class.id: found.sustains}),)
    return found.template, Capacity(found.template.id, points, "s", found.work_class.slo_share_ms, 99.0, "belief")


def whole_unit(placement: Placement, software: Software, _nodes: Mapping[str, int]) -> UnitPlacement:
    node = StageNodes(placement.payload["config"], 1, 1.0, 1, 1, 1, 1, batch_cap=16, chunk_tokens=64, kv_blocks=900)
    return one_executor((Stage(0, placement.payload["layers"], True, True, (node,)),), software)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCE_KINDS, "whole", SourceKind(WholeRecipe, WholeSource, read_whole, RecertifiedSource))
    monkeypatch.setitem(PLACEMENT_KINDS, "whole", PlacementKind(1, whole_unit))


def toy_of(world: World, **changes: object) -> WholeRecipe:
    """A node that decodes faster than any pipeline of `world`."""
    (served,) = world.recipe.served
    (decode_class,) = (each for each in served.work_classes() if each.id == DECODE)
    model = served.model
    software = Software(model.id, model.revision, model.dtype, served.engine, served.dispatch)
    node = next(node.id for node in world.recipe.nodes if node.gpu == "L4" and node.gpu_count == 1)
    return replace(WholeRecipe(software, decode_class, node, model.layers, 1e6), **changes)


@pytest.mark.usefixtures("whole")
def test_a_registered_kind_is_planned_beside_another_stored_explained_and_shown(
    database: Database, tmp_path: Path
) -> None:
    store = PostgresLibraries(database)
    session = PlanningSession(store, PostgresPlans(database), lambda *_: None, time.perf_counter)
    world = world_of(tmp_path, SPEC)
    alone, pipelines = session.record(world, NOON)
    open_snapshot = replace(alone.snapshot, version="", library_version="", cost_model_fingerprint="")
    made = Recording(alone.format, alone.name, open_snapshot, Recipe((world.recipe, toy_of(world))))
    recording, templates = session.replay(decode(encode(made), "two.json"))

    info = store.show(templates.library.version)
    assert (info.kind, info.version) == ("pipeline+whole", recording.snapshot.library_version)
    assert info.version not in (pipelines.library.version, "")
    assert (info.parameters["n_max"], info.parameters["layers"]) == (2.0, float(toy_of(world).layers))
    assert templates.cost_model == "estimated; given"

    report = session.plan(recording, templates, baselines=True)
    plan = report.plan
    assert check(plan, recording.snapshot) == ()
    assert not plan.unmet
    assert plan.usd_per_hour < session.plan(alone, pipelines, baselines=False).plan.usd_per_hour
    assert {i.placement.kind for i in plan.instances if i.placement} == {"pipeline", "whole"}
    (toy,) = (each for each in targets(plan) if each.template.placement.kind == "whole")
    explanation = session.explain(plan, recording.snapshot, store.load(plan.library_version))
    assert explanation.runners_up
    assert explanation.shortage is None
    kept = session.plans.find(plan.id)
    assert session.kept_report(kept).plan == plan
    assert session.kept_report(kept).basis.step_times == report.basis.step_times != ()

    stages = [each["stages"] for each in plan_document(report)["instances"] if each["template_id"] == toy.template.id]
    assert [(stage["first_layer"], stage["last_layer"]) for stage in stages[0]] == [(0, toy_of(world).layers - 1)]
    text = StringIO()
    print_template(stored_template(store, toy.template.id), Console(file=text, width=200))
    assert "100.0%" in text.getvalue()
    (place,) = gang_of(toy.template).executors[0].places
    assert (place.layers, place.kv_blocks) == (toy_of(world).layers, 900)
    lives = [
        life
        for life in timeline_of_plan(plan, Recipe((world.recipe,)), recording.snapshot.routes, 60.0).instances
        if life.leg == "decode"
    ]
    assert {node.kv_blocks for life in lives for node in life.station.stages[0].nodes} == {900}


def test_a_recipe_of_one_source_has_the_version_that_it_always_had(database: Database) -> None:
    folder = Path(__file__).parents[2] / "data" / "shapes_to_come"
    recipe = decode((folder / "three_legs.json").read_bytes(), "three_legs.json").recipe
    assert recipe is not None
    store = PostgresLibraries(database)
    # As release 0.1.0 stored it.
    assert build_templates(recipe, store, lambda *_: None) == "1dbfcf76ea41fee3e919765824f4cfc9"


@pytest.mark.usefixtures("whole")
def test_a_change_to_one_source_builds_that_source_alone(database: Database, tmp_path: Path) -> None:
    store, world = PostgresLibraries(database), world_of(tmp_path, SPEC)
    built: list[str] = []

    def version_with(units_per_s: float) -> str:
        recipe = Recipe((world.recipe, toy_of(world, units_per_s=units_per_s)))
        return build_templates(recipe, store, lambda unit, *_: built.append(unit))

    first = version_with(1e6)
    assert set(built) == {"gpt-oss-20b/prefill", DECODE, "whole"}
    built.clear()
    assert version_with(2e6) != first
    assert built == ["whole"]
    built.clear()
    assert version_with(1e6) == first
    assert built == []


@pytest.mark.usefixtures("whole")
def test_what_runs_of_each_kind_is_certified_again_by_its_own_source(database: Database, tmp_path: Path) -> None:
    store, world = PostgresLibraries(database), world_of(tmp_path, SPEC)
    old = toy_of(world)
    before = obtain(Recipe((world.recipe, old)), store, lambda *_: None).library
    tight = world_of(tmp_path, SPEC.replace("tpot_ms: 60", "tpot_ms: 40").replace("ttft_ms: 1500", "ttft_ms: 1200"))
    other = next(node.id for node in tight.recipe.nodes if node.gpu == "L40S")
    recipe = Recipe((tight.recipe, toy_of(tight, config=other)))
    fresh = obtain(recipe, store, lambda *_: None).library
    running = {name.decode() for name in before.ids.tolist()}
    now = obtain(recipe, store, lambda *_: None, running).library
    assert now.version == fresh.version
    extra = now.of(running - {name.decode() for name in fresh.ids.tolist()})
    assert extra.size > 1
    assert stored_template(store, old.template.id).capacity.slo_ms == toy_of(tight).work_class.slo_share_ms
    (mine,) = extra.of({old.template.id}).entry_units_per_s.tolist()
    assert mine == pytest.approx(old.sustains * toy_of(tight).work_class.slo_share_ms / old.work_class.slo_share_ms)
    # Whoever reads it later, by its version and what runs, finds the same.
    assert set(store.load(now.version, running).ids.tolist()) == set(now.ids.tolist())


def test_listed_templates_serve_what_pipelines_cannot(database: Database, tmp_path: Path) -> None:
    """No node is small enough for a pipeline; a listed template of the same class serves the model all the same."""
    store = PostgresLibraries(database)
    world = world_of(tmp_path, SPEC.replace("solver: {n_max: 2}", "solver: {n_max: 1, rho: 0.5}"))
    with pytest.raises(UnservableError, match="no node is small enough"):
        obtain(Recipe((world.recipe,)), store, lambda *_: None)
    toy = toy_of(world)
    (served,) = world.recipe.served
    listed = tuple(
        ListedTemplate(toy.software, {toy.config: 1}, Placement("box", 1, {"of": c.id}), (OperatingPoint({c.id: 1e6}),))
        for c in served.work_classes()
    )
    templates = obtain(Recipe((world.recipe, ListedRecipe(served.work_classes(), listed))), store, lambda *_: None)
    assert templates.library.size == len(listed)
    with pytest.raises(UnplaceableError, match="of kind 'box' are not served yet"):
        gang_of(listed[0].template())


def test_sources_that_describe_a_class_differently_are_refused_before_they_are_built(
    database: Database, tmp_path: Path
) -> None:
    store, world = PostgresLibraries(database), world_of(tmp_path, SPEC)
    other = replace(toy_of(world).work_class, slo_share_ms=1.0)
    with pytest.raises(ValueError, match=f"work class {DECODE} has to be the same in every source"):
        build_templates(Recipe((world.recipe, ListedRecipe((other,), ()))), store, lambda *_: None)
    assert store.libraries() == ()
