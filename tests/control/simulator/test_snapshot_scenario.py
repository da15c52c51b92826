"""Scenarios of recorded snapshots: whose apps have legs of any kind, which objectives follow from their shares, and
what is refused with its line."""

from dataclasses import replace
from math import inf
from pathlib import Path

import msgspec
import pytest

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.fleet_file.problem import SpecError
from control.planning.recipe import ListedRecipe, PipelineRecipe, Recipe
from control.planning.recording import FORMAT, Recording, decode, encode
from control.planning.world import read_world
from control.simulator.fleet_run import Around
from control.simulator.recorded_models import recorded_models
from control.simulator.report.files import write_results
from control.simulator.run import simulate
from control.simulator.scenario import SnapshotScenario, read_scenario
from templates_lib.values.work import Demand, Edge, Leg, Route
from tests.control.simulator.serving.test_plan_timeline import plan_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "simulate"
ASSISTANT = EXAMPLES / "assistant.json"
LINES = (
    "apiVersion: medley/v1",
    "kind: Scenario",
    "name: small",
    "minutes: 2",
    "snapshot: assistant.json",
    "traffic:",
    "  - {model: assistant-picture, synthetic: poisson, requests_per_s: 2}",
)


def recording() -> Recording:
    return decode(ASSISTANT.read_bytes(), ASSISTANT.name)


def listed() -> ListedRecipe:
    (recipe,) = recording().recipe.sources  # type: ignore[union-attr]
    assert isinstance(recipe, ListedRecipe)
    return recipe


def with_routes(*routes: Route) -> Recording:
    return replace(recording(), snapshot=replace(recording().snapshot, routes=routes))


def written(folder: Path, old: str = "", new: str = "", made: Recording | None = None) -> Path:
    (folder / "assistant.json").write_bytes(encode(made or recording()))
    path = folder / "scenario.yaml"
    path.write_text("\n".join(LINES).replace(old, new) + "\n")
    return path


def read(path: Path) -> SnapshotScenario:
    found = read_scenario(path)
    assert isinstance(found, SnapshotScenario)
    return found


def refused(path: Path) -> str:
    with pytest.raises(SpecError) as found:
        read_scenario(path)
    return str(found.value)


def test_the_example_has_an_app_for_each_request_type_with_the_classes_of_its_legs() -> None:
    scenario = read(EXAMPLES / "assistant.yaml")
    assert {model.name: set(model.work_classes) for model in scenario.models} == {
        "assistant": {"language/answer"},
        "assistant-picture": {"vision/encode", "language/answer"},
        "assistant-spoken": {"vision/encode", "language/answer", "voice/speak"},
    }
    assert not any(model.makes_text for model in scenario.models)
    # Shares of legs add up; a class of output tokens has its share of each.
    assert [model.slo.ttft_ms for model in scenario.models] == [150 * 30, 600 + 100 * 30, 600 + 60 * 30 + 4000]
    assert len(scenario.traffic.requests) > 9000


def test_without_a_share_of_any_class_there_is_no_objective() -> None:
    classes = tuple(replace(each, slo_share_ms=0.0) for each in listed().classes)
    open_ended = replace(recording(), recipe=Recipe((replace(listed(), classes=classes),)))
    assert {model.slo.ttft_ms for model in recorded_models(open_ended)} == {inf}


def test_a_text_model_keeps_its_objectives_and_waits_for_the_legs_before_it() -> None:
    (text,) = read_world(EXAMPLES / "chat-fleet.yaml").recipe.served
    pipelines = PipelineRecipe((text,), (), (), 1, 8.0, read_world(EXAMPLES / "chat-fleet.yaml").recipe.slo_split)
    legs = Leg("vision/encode", 576), Leg(f"{text.name}/aggregated", 1.0)
    looking = Route("looking", "eyes", "chat", legs, (Edge(0, 1, 1e6),))
    snapshot = replace(
        recording().snapshot,
        routes=(looking, *text.routes()),
        demand=(Demand("eyes", "chat", 1.0), Demand(text.name, "chat", 1.0)),
    )
    mixed = Recording(FORMAT, "mixed", snapshot, Recipe((pipelines, listed())))
    eyes, alone = recorded_models(mixed)
    assert eyes.makes_text
    assert (eyes.slo.ttft_ms, eyes.slo.tpot_ms) == (text.slo.ttft_ms + 600, text.slo.tpot_ms)
    assert dict(eyes.work_classes) == {"vision/encode": (576, 0, 0), f"{text.name}/aggregated": (1, 0, 0)}
    assert (alone.slo, alone.shape) == (text.slo, text.shape)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("assistant-picture", "assistant-pictures", 7, "'assistant-pictures' is not in snapshot assistant; did you"),
        ("snapshot: assistant.json", "snapshot: none.json", 5, "none.json: cannot be read"),
        ("minutes: 2", "minutes: 2\nwarm: false\nreplan_minutes: 5", 1, "leave replan_minutes, warm out"),
        ("snapshot: assistant.json", "snapshot: assistant.json\nfleet: chat.yaml", 1, "give fleet, a spec file, or"),
        ("snapshot: assistant.json", "fleet: chat.yaml\ntemplates: t.json", 1, "leave templates out"),
        ("snapshot: assistant.json", "snapshot: assistant.json\ntemplates: none.json", 5, "has its own recipe"),
    ],
)
def test_a_mistake_is_told_at_its_line(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    text = refused(written(tmp_path, old, new))
    assert f"scenario.yaml:{line}: " in text
    assert said in text


def test_a_route_whose_leg_nothing_serves_and_demand_without_a_route_are_refused(tmp_path: Path) -> None:
    routes = recording().snapshot.routes
    heard = replace(routes[0], legs=(Leg("ears/hear", 1.0), *routes[0].legs), edges=(Edge(0, 1, 1.0),))
    text = refused(written(tmp_path, made=with_routes(heard, *routes[1:])))
    assert "scenario.yaml:5: " in text
    assert "route assistant/text needs ears/hear, which no template of the recipe serves" in text
    assert "demand assistant/spoken has no route" in refused(written(tmp_path, made=with_routes(*routes[:2])))
    assert "name their file with `templates`" in refused(written(tmp_path, made=replace(recording(), recipe=None)))


def test_templates_of_their_own_file_are_taken(tmp_path: Path) -> None:
    (tmp_path / "templates.json").write_bytes(msgspec.json.encode(listed()))
    more = "snapshot: assistant.json\ntemplates: templates.json"
    path = written(tmp_path, "snapshot: assistant.json", more, replace(recording(), recipe=None))
    assert [model.name for model in read(path).models] == ["assistant", "assistant-picture", "assistant-spoken"]


def test_a_plan_is_made_and_served_and_reports_have_its_legs(
    database: Database, tmp_path: Path, short_tmp: Path
) -> None:
    around = Around(PostgresLibraries(database), lambda *_: None, lambda: 0.0, short_tmp)
    scenario = read(written(tmp_path))
    result = simulate(scenario, around)
    assert [plan.kind for plan in result.events] == ["plan.made"]
    assert {life.leg for life in result.fleet.instances} == {"encode", "answer", "speak"}
    assert result.spent_usd == pytest.approx(result.epochs[0].planned_usd_per_hour / 30)
    assert {node.instance for node in result.nodes} == {each.id for each in result.instances}
    (epoch, *_) = result.epochs
    assert set(epoch.capacity_units_per_s) == {"vision/encode", "language/answer", "voice/speak"}
    assert epoch.offered_requests_per_s["assistant-picture"] * 100 == epoch.demand_units_per_s["language/answer"]

    summary = write_results(result, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    for word in ("prefill", "decode", "token", "TPOT"):
        assert word not in page
    for word in ("vision/encode", "voice/speak", "Time to answer", "requests/s", "one plan"):
        assert word in page
    assert not (tmp_path / "out" / "tpot.png").exists()
    header = (tmp_path / "out" / "requests.csv").read_text().partition("\n")[0].split(",")
    assert {"leg_1_instance", "leg_2_instance"} <= set(header)
    assert summary.goodput_tokens_per_s == 0
    assert summary.models[1].goodput_requests_per_s == pytest.approx(len(result.requests) / 120)

    again = simulate(replace(scenario, strategy="homo"), around)
    assert again.epochs[0].planned_usd_per_hour >= result.epochs[0].planned_usd_per_hour


def test_a_plan_of_another_snapshot_is_refused(database: Database, tmp_path: Path, short_tmp: Path) -> None:
    around = Around(PostgresLibraries(database), lambda *_: None, lambda: 0.0, short_tmp)
    scenario = replace(read(written(tmp_path)), strategy="fixed", fixed=plan_of())
    with pytest.raises(ValueError, match="plan p was made on snapshot s, and assistant is"):
        simulate(scenario, around)
