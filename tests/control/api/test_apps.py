"""Any-to-any models of fleets over HTTP: listed, and shown by the plan that their fleet is held to."""

from datetime import UTC, datetime

import pytest

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.plans import PostgresPlans
from templates_lib.values.offer import Market
from templates_lib.values.plan import Flow, PlannedInstance
from templates_lib.values.work import Leg, Route
from tests import factories as make
from tests.control.api.conftest import Api
from tests.control.api.worlds import PICTURES, spec
from tests.templates_lib.units import cell_template

NOW = datetime(2026, 11, 27, tzinfo=UTC)
TOGETHER = "vl/vision+language/image-text-to-text"


@pytest.fixture
def fleet(admin: Api) -> str:
    """A fleet of an app alone, on record."""
    clouds = [{"cloud": "aws", "regions": ["us-east-2"], "gpus": ["L40S"]}]
    sent = {"project": "default", "spec": spec("pictures", models=[], apps=[PICTURES], clouds=clouds)}
    assert admin.post("/fleets", sent).status_code == 201
    return "pictures"


def keep_plan(database: Database, fleet: str) -> str:
    made = cell_template()
    instance = PlannedInstance(
        made.id, "vl", "cell", "aws/a", Market.ON_DEMAND, 1, 0, made.nodes, {TOGETHER: 4.0}, 12.0
    )  # fmt: skip
    routes = (Route("whole", "vl", "image-text-to-text", (Leg(TOGETHER, 1.0),), ()),)
    plan = make.plan([instance.with_template(made)], [], (Flow("whole", ("aws/a",), 3.0, 0.0),))
    PostgresPlans(database).save(fleet, plan, make.snapshot((), routes, {}))
    return plan.id


def test_apps_are_listed_by_fleet(viewer: Api, fleet: str) -> None:
    (found,) = viewer.get("/apps").json()["items"]
    assert (found["fleet"], found["app"], found["graph"]) == (fleet, "vl", "qwen2.5-vl-7b")
    assert [(each["request_type"], each["share"]) for each in found["request_types"]] == [
        ("image-text-to-text", 0.7), ("text-to-text", 0.3),
    ]  # fmt: skip
    assert viewer.get("/apps?fleet=other").json()["items"] == []


def test_an_app_is_shown_by_its_graph_its_newest_plan_and_the_one_in_force(
    viewer: Api, database: Database, fleet: str
) -> None:
    path = f"/fleets/{fleet}/apps/vl"
    bare = viewer.get(path).json()
    assert (bare["state"], bare["plan"], bare["planned"]["usd_per_hour"]) == ("unplanned", None, 0.0)
    assert [each["component"] for each in bare["planned"]["graph"]["components"]] == ["vision", "language"]
    name = keep_plan(database, fleet)
    planned = viewer.get(path).json()
    assert (planned["state"], planned["plan"]) == ("planned", name)
    assert [each["load"] for each in planned["planned"]["components"]] == [0.75, 0.75]
    assert [each["shared_usd_per_hour"] for each in planned["planned"]["components"]] == [6.0, 6.0]
    fleets = PostgresFleets(database)
    fleets.accept(fleets.target(fleet), name, "test", "a test", NOW)
    assert viewer.get(path).json()["state"] == "in_force"


def test_unknown_fleets_and_apps_are_refused_with_the_nearest(viewer: Api, fleet: str) -> None:
    assert viewer.get("/fleets/none/apps/vl").status_code == 404
    answer = viewer.get(f"/fleets/{fleet}/apps/v")
    assert answer.status_code == 404
    assert "vl" in answer.json()["detail"]
