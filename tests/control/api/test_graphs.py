"""Any-to-any models over HTTP: what an app of a spec may name."""

from templates_lib.graphs.catalogue import graph_names
from tests.control.api.conftest import Api


def test_graphs_and_the_tasks_that_ship_for_them_are_listed(viewer: Api) -> None:
    graphs = {each["graph"]: each for each in viewer.get("/graphs").json()["items"]}
    assert list(graphs) == list(graph_names())
    omni = graphs["qwen2.5-omni-7b"]
    assert [each["component"] for each in omni["components"]] == ["vision", "hearing", "thinker", "talker", "vocoder"]
    assert omni["request_types"]["text-to-audio"] == ["thinker", "talker", "vocoder"]
    assert [each["stream"] for each in omni["edges"]] == [False, False, True, True]
    tasks = {each["task"]: each["request_types"] for each in viewer.get("/tasks").json()["items"]}
    assert tasks["qwen2.5-omni-7b"] == list(omni["request_types"])
    assert tasks.keys() <= graphs.keys()
