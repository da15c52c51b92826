"""Lists in pages: everything once, in order, whatever is added meanwhile."""

import pytest

from control.db.database import Database
from control.db.events import PostgresEvents
from control.db.operations import PostgresOperations
from control.lifecycle.fleet_event import FleetEvent
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import kept_plan, serving, spec


def fill(database: Database, admin: Api) -> None:
    for number in range(1, 6):
        admin.post("/projects", {"name": f"p{number}"})
        admin.post("/tokens", {"name": f"t{number}", "role": "viewer"})
        admin.post("/fleets", {"spec": spec(f"f{number}")})
        kept_plan(database, "f1", number=number)
        serving(database, "f1", now(), f"i{number:012x}")
        PostgresOperations(database).create("plan", {}, "f1", "token:x", "", now())
        PostgresEvents(database).add([FleetEvent("token:x", "a.kind", "why", "f1")], now())


@pytest.mark.parametrize(
    "path", ["projects", "tokens", "fleets", "plans", "instances", "operations", "events", "events?fleet=f1", "models"]
)
def test_pages_hold_everything_once(admin: Api, database: Database, path: str) -> None:
    fill(database, admin)
    sign = "&" if "?" in path else "?"
    whole = admin.get(f"/{path}{sign}limit=200").json()
    assert whole["next"] is None
    assert len(whole["items"]) >= 5
    read, cursor = [], ""
    while cursor is not None:
        some = admin.get(f"/{path}{sign}limit=2{cursor and f'&cursor={cursor}'}").json()
        assert len(some["items"]) <= 2
        read += some["items"]
        cursor = some["next"]
    assert read == whole["items"]


@pytest.mark.parametrize("cursor", ["x", "WyJhIl0", "W10", "bnVsbA", "WyJhIiwgIlx1MDAwMCJd", "Ww", "é"])
@pytest.mark.parametrize("path", ["projects", "tokens", "events", "plans", "instances"])
def test_what_is_no_cursor_is_refused(admin: Api, path: str, cursor: str) -> None:
    answer = admin.get(f"/{path}?cursor={cursor}")
    assert answer.status_code in (200, 400)
    assert answer.status_code == 400 or path in ("projects", "instances")  # any name may be a cursor there


def test_a_page_is_bounded(admin: Api) -> None:
    for limit in ("0", "-1", "201", "x", "1e3"):
        assert admin.get(f"/events?limit={limit}").status_code == 422


def test_instances_are_listed_by_state(admin: Api, database: Database) -> None:
    fill(database, admin)
    ready = admin.get("/instances?state=ready&fleet=f1").json()["items"]
    assert [(i["state"], i["model"], i["leg"]) for i in ready] == [("ready", "smollm2-135m-instruct", "whole")] * 5
    assert admin.get("/instances?state=terminated").json()["items"] == []
    assert admin.get("/instances?fleet=none").json()["items"] == []
