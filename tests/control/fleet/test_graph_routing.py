"""An app of a graph in the routing table: a model for each type that is answered with text, and the code of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from control.fleet.graph_routing import graph_models, served_app
from control.fleet.routing import Routing, routed_route
from control.gateway.published import MediaTerms, Published, read_published, write_published
from control.gateway.published_app import TaskCode
from policies.routing import BY_LOAD
from policies.routing_table import RoutedModel
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.graph_app import app_of
from tests.control.fleet.fleets import plan_of
from tests.control.planning.test_task_apps import BY_TASK, TASK, with_task
from tests.control.planning.worlds import world_of
from tests.templates_lib.test_app_work import A100, COSTS


def test_each_type_is_a_model_with_its_routes_and_the_code_chooses_for_each(tmp_path: Path) -> None:
    (published,) = world_of(with_task(tmp_path), BY_TASK).fleet.graph_apps
    work, code = AppWork(app_of(published), [A100], COSTS), TaskCode("own.py", TASK, "describe")
    models, app = graph_models(work, MediaTerms(published.config), BY_LOAD, "/t"), served_app(work, code)
    assert app.types == {"image-text-to-text": "vl-image-text-to-text", "text-to-text": "vl-text-to-text"}
    assert {model.policy for model in models.values()} == {BY_LOAD}
    asked = {name: model.objective for name, model in models.items()}
    limits_ms = {name: slo and (slo.ttft_ms, slo.tpot_ms) for name, slo in asked.items()}
    assert limits_ms == {"vl-image-text-to-text": (4000, 60), "vl-text-to-text": (3000, 60)}
    routes = {route.id for model in models.values() for route in model.routes}
    assert routes == app.choices.keys() & routes
    assert app.roles["vl/language"] == ("language",)

    routing = Routing(plan_of([], [], []), models, apps=(app,))
    path = tmp_path / "table.json"
    write_published(path, Published(1, {}, routing.served([]), apps=routing.apps))
    assert read_published(path).apps == (app,)
    assert read_published(path).models[0].media == MediaTerms(published.config)


def test_a_route_without_roles_is_an_error_of_the_table(tmp_path: Path) -> None:
    (published,) = world_of(with_task(tmp_path), BY_TASK).fleet.graph_apps
    work = AppWork(app_of(published), [A100], COSTS)
    models = graph_models(work, MediaTerms(published.config), BY_LOAD)
    app = served_app(work, TaskCode("own.py", TASK, "describe"))
    units = {each.id: each.unit for model in models.values() for each in model.work_classes}
    routed = {
        name: RoutedModel(name, tuple(routed_route(route, units, ()) for route in model.routes))
        for name, model in models.items()
    }
    app.check(routed)
    for wrong in (replace(app, roles={}), replace(app, types=app.types | {"audio-to-text": "nowhere"})):
        with pytest.raises(ValueError, match="vl"):
            wrong.check(routed)
