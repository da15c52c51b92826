"""Time of what a request of an any-to-any model needs before and after its components: path, record, replay.

    python -m bench.tasks

Qwen2.5-Omni's own task in a process of its own: a request with two images and a clip whose answer is spoken. Exits with
1 where a median is above its bar: 10 microseconds for the choice of a path and its members, 1 ms for record and replay
of a request that is like none before, 50 microseconds where one of its signature came before. How long a fresh process
takes, which serves the next request after one that failed, has no bar.
"""

import statistics
import sys
import time
from collections.abc import Callable

from control.tasks.shipped_task import VARIABLE, shipped_source
from control.tasks.task_process import TaskProcess
from control.tasks.task_runner import TaskRunner
from control.tasks.task_source import TaskSource
from medley_sdk.values import Signature
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from policies.static_routing import StaticRouter
from templates_lib.executors.estimate import neighbours
from templates_lib.executors.executor_graph import graph_of_options
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.role import roles_of
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.request_type import Lengths, possible_types, request_type
from templates_lib.values.work import Edge, Unit

GRAPH, TYPE = "qwen2.5-omni-7b", "image-audio-text-to-audio"
SIGNATURE = Signature("audio", images=2, audio=1)
SPOKEN = """
from medley_sdk import decoder, workflow

thinker = decoder("thinker", of="qwen2.5-omni-7b")

@workflow(takes=("text", "image", "audio"), makes=("text", "audio"))
async def awaits(request):
    return {"text": (await thinker(request.text, request.images, request.audio)).strip()}
"""
"""A task that awaits, so that its replay runs its code again."""
ZONES, TURNS = ("a", "b", "c", "d"), 2000
PATH_US, NEW_US, KNOWN_US = 10.0, 1000.0, 50.0


def router() -> StaticRouter:
    """Every path of the request type over four zones, two members a zone for each of its work classes."""
    graph = load_graph(GRAPH)
    kind = request_type(graph, TYPE, possible_types(graph)[TYPE], Lengths())
    options = [DeploymentOption(names) for names in neighbours(graph, [kind.components])]
    found = roles_of(graph, [kind], graph_of_options(graph, [kind], options), closed=False).routes
    routes = []
    for number, route in enumerate(found):
        legs = tuple(RoutedLeg(role.name, Unit.INVOCATION, 1.0) for role in route.roles)
        edges = tuple(Edge(place, place + 1, 1.0) for place in range(len(legs) - 1))
        flows = tuple(ZoneFlow((zone,) * len(legs), 1.0 + number) for zone in ZONES)
        routes.append(RoutedRoute(f"omni/{TYPE}/{number}", legs, edges, flows))
    classes = sorted({leg.work_class for route in routes for leg in route.legs})
    members = tuple(
        RoutedInstance(f"{name}/{zone}/{number}", zone, {name: 1.0 + number})
        for name in classes for zone in ZONES for number in range(2)
    )  # fmt: skip
    return StaticRouter({TYPE: RoutedModel("omni", tuple(routes), members)})


def median_us(turn: Callable[[int], object]) -> float:
    found = []
    for number in range(TURNS):
        start_s = time.perf_counter()
        turn(number)
        found.append((time.perf_counter() - start_s) * 1e6)
    return statistics.median(found)


def served(runner: TaskRunner) -> Callable[[int], object]:
    """Serve one request, but for what its calls compute."""

    def turn(_: int) -> object:
        record = runner.record(SIGNATURE)
        return runner.answer(record, ["a text"] * len(record.calls))

    return turn


def main() -> int:
    routing = router()
    rows = [("path and members", PATH_US, median_us(lambda number: routing.choose(TYPE, f"request-{number}")))]
    with (
        TaskProcess(shipped_source(GRAPH)) as shipped,
        TaskProcess(TaskSource("bench/tasks.py", SPOKEN)) as awaiting,
    ):
        rows += [
            ("record and replay", NEW_US, median_us(served(TaskRunner(shipped, VARIABLE, kept=0)))),
            ("record and replay, code that awaits", NEW_US, median_us(served(TaskRunner(awaiting, "awaits", kept=0)))),
            ("the same, its signature known", KNOWN_US, median_us(served(TaskRunner(shipped, VARIABLE)))),
        ]
        start_s = time.perf_counter()
        shipped.close()
        shipped.tasks()
        fresh_ms = (time.perf_counter() - start_s) * 1e3
    for what, bar, found in rows:
        print(f"{what:38}{found:8.1f} us  (bar {bar:g}){'' if found <= bar else '  MISSED'}")
    print(f"{'a fresh process, its file loaded':38}{fresh_ms:8.1f} ms")
    return int(any(found > bar for _, bar, found in rows))


if __name__ == "__main__":
    sys.exit(main())
