"""Apps of a task: planned as those of its graph, along the paths of its code; and tasks that are wrong."""

from pathlib import Path

import pytest

from control.db.database import Database
from control.fleet_file.document import parse
from control.fleet_file.problem import SpecError
from control.planning.recording import decode, encode
from control.reconcile.fleet_world import refuse_paths
from templates_lib.apps.app_work import roles_on
from templates_lib.apps.graph_app import app_of
from templates_lib.apps.task_choices import task_choices
from tests.control.planning.test_graph_apps import NOON, SPEC, session_of
from tests.control.planning.worlds import world_of

TASK = (Path(__file__).parents[3] / "examples" / "tasks" / "describe.py").read_text()
BY_TASK = SPEC.replace("graph: qwen2.5-vl-7b", "task: own.py:describe")


def with_task(folder: Path, text: str = TASK) -> Path:
    (folder / "own.py").write_text(text)
    return folder


@pytest.mark.parametrize("task", ["own.py:describe", "qwen2.5-vl-7b"])
def test_a_task_gives_the_graph_and_the_request_types_of_the_model(tmp_path: Path, task: str) -> None:
    (by_graph,) = world_of(tmp_path, SPEC).fleet.graph_apps
    text = SPEC.replace("graph: qwen2.5-vl-7b", f"task: {task}")
    (by_task,) = world_of(with_task(tmp_path), text).fleet.graph_apps
    assert (by_task.graph, by_task.revision, by_task.config) == (by_graph.graph, by_graph.revision, by_graph.config)
    assert app_of(by_task).graph == app_of(by_graph).graph
    assert app_of(by_task).types == app_of(by_graph).types


def test_it_is_planned_along_the_paths_of_the_code_alone(database: Database, tmp_path: Path) -> None:
    together = TASK.replace('if replayable_choice("apart", "together") == "together":', "if True:")
    world = world_of(with_task(tmp_path, together), BY_TASK)
    session = session_of(database)
    made, templates = session.record(world, NOON)
    recording, _ = session.replay(decode(encode(made), "pictures.json"))
    assert encode(recording) == encode(made)
    plan = session.plan(recording, templates, baselines=False).plan
    assert not plan.unmet
    assert {flow.route.rpartition("/")[2] for flow in plan.flows} == {"vision+language", "language"}
    assert {each.phase for each in plan.instances} <= {"vision+language", "language"}


def test_routes_are_those_of_the_paths(tmp_path: Path) -> None:
    (by_task,) = world_of(with_task(tmp_path), BY_TASK).fleet.graph_apps
    routes = {(route.request_type, route.name) for route in roles_on(app_of(by_task), closed=False).routes}
    assert routes == {
        ("image-text-to-text", "vision-language"),
        ("image-text-to-text", "vision+language"),
        ("text-to-text", "language"),
    }


def test_each_route_says_how_the_code_is_to_choose(tmp_path: Path) -> None:
    (by_task,) = world_of(with_task(tmp_path), BY_TASK).fleet.graph_apps
    app = app_of(by_task)
    assert task_choices(app, roles_on(app, closed=True).routes) == {
        "vl/image-text-to-text/vision-language": (0,),
        "vl/image-text-to-text/vision+language": (1,),
        "vl/text-to-text/language": (0,),
        "vl/text-to-text/closed": (0,),
    }
    (by_graph,) = world_of(tmp_path, SPEC).fleet.graph_apps
    assert task_choices(app_of(by_graph), ()) == {}


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ("own.py:describe", "own.py:describes", 6, "describe"),
        ("own.py:describe", "own.py", 6, "NAME"),
        ("own.py:describe", "other.py:describe", 6, "other.py"),
        ("own.py:describe", "qwen2.5-vl-7", 6, "qwen2.5-vl-7b"),
        ("task: own.py:describe", "task: own.py:describe\n    graph: qwen2.5-vl-7b", 5, "one of both"),
        ("    task: own.py:describe\n", "", 5, "task"),
        ("    demand:", "    together: [vision]\n    demand:", 5, "together"),
        ("type: image-text-to-text", "type: image-to-text", 8, "image-text-to-text"),
    ],
)
def test_a_spec_that_is_wrong_about_its_task_is_refused_at_its_line(
    tmp_path: Path, old: str, new: str, line: int, named: str
) -> None:
    assert old in BY_TASK
    with pytest.raises(SpecError) as caught:
        world_of(with_task(tmp_path), BY_TASK.replace(old, new, 1))
    (problem,) = caught.value.problems
    assert (problem.line, named in problem.message) == (line, True), problem


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("of=GRAPH)\nlanguage", 'of="qwen2.5-vl-7")\nlanguage', "one graph"),
        ('GRAPH = "qwen2.5-vl-7b"', 'GRAPH = "qwen2.5-vl-7"', "qwen2.5-vl-7b"),
        ('GRAPH = "qwen2.5-vl-7b"', 'GRAPH = "none.json"', "none.json"),
        ('encoder("vision"', 'encoder("visoin"', "vision"),
        ("[vision(image) for image in request.images]", "request.images", "vision"),
        ("if replayable_choice", "if 1 / 0 or replayable_choice", "ZeroDivisionError"),
        ('makes=("text",)', 'makes=("text", "audio")', "text-to-audio"),
    ],
)
def test_code_that_is_no_task_of_the_graph_is_refused_at_the_line_of_the_spec(
    tmp_path: Path, old: str, new: str, named: str
) -> None:
    assert old in TASK
    with pytest.raises(SpecError) as caught:
        world_of(with_task(tmp_path, TASK.replace(old, new, 1)), BY_TASK)
    (problem,) = caught.value.problems
    assert problem.line == 6
    assert "own.py" in problem.message
    assert named in problem.message


@pytest.mark.parametrize("task", ["own.py:describe", "/etc/own.py:describe"])
def test_a_spec_that_is_sent_names_no_file_of_code(task: str) -> None:
    with pytest.raises(SpecError, match="path"):
        refuse_paths(parse(SPEC.replace("graph: qwen2.5-vl-7b", f"task: {task}"), "sent.yaml"))
    refuse_paths(parse(SPEC.replace("graph: qwen2.5-vl-7b", "task: qwen2.5-vl-7b"), "sent.yaml"))
