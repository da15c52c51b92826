"""How the code of an app's task is to choose, for requests that take a route of the plan."""

from collections.abc import Iterable

from templates_lib.apps.graph_app import GraphApp
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.role import RoleRoute, role_of


def task_choices(app: GraphApp, routes: Iterable[RoleRoute]) -> dict[str, tuple[int, ...]]:
    """Route id → options to take, where `app` has a task. `routes`: those that requests may take (`roles_on`).

    A route says which components are computed together, and ways of the code that come to the same are one route: the
    first of them is taken. Requests that one node serves whole take the first way of their type.
    """
    if app.task is None:
        return {}
    kinds = {kind.name: kind for kind in app.types}
    known: dict[tuple[str, frozenset[object]], tuple[int, ...]] = {}
    first: dict[str, tuple[int, ...]] = {}
    for way in app.task.ways:
        if (kind := kinds.get(way.request_type)) is None:
            continue
        options = [DeploymentOption(app.graph.order(names)) for names in way.options]
        first.setdefault(kind.name, way.choices)
        for path in app.task.paths(app.graph, kind, options):
            roles = frozenset(role_of(visit.components, kind) for visit in path.visits)
            known.setdefault((kind.name, roles), way.choices)
    return {
        route.id_of(app.name): known.get((route.request_type, frozenset(route.roles)), first[route.request_type])
        for route in routes
    }
