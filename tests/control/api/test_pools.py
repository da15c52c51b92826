"""Pools over the API and on the command line: members, load against capacity, and what is planned for instead."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork, Recent, RecentLine, RecentWork
from control.cli.main import app
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from control.db.plans import PostgresPlans
from control.fleet.pools import BURST_EVENT
from control.lifecycle.fleet_event import RECONCILER, FleetEvent
from templates_lib.values.work import Leg, Route, Unit
from tests.control.api.conftest import Api
from tests.control.api.worlds import OFFER, kept_plan, serving, spec

APP = "smollm2-135m-instruct"
SEE, WRITE = f"{APP}/see", f"{APP}/write"


def planned(database: Database, fleet: str, members: int = 2) -> None:
    """The fleet follows a plan of members that see (100 rows/s each, of which 85 are planned for) and write."""
    plan = kept_plan(database, fleet, members)
    legs = Leg(SEE, 64.0), Leg(WRITE, 20.0)
    snapshot = replace(
        PostgresPlans(database).snapshot(plan.snapshot_version), version=f"visited-{fleet}",
        routes=(Route("r", APP, "chat", legs),),
    )  # fmt: skip
    (instance,) = plan.instances
    made = replace(
        plan, id=f"plan-{fleet}-seen", snapshot_version=snapshot.version,
        instances=(replace(instance, units_per_s={SEE: 100.0, WRITE: 40.0}),),
    )  # fmt: skip
    PostgresPlans(database).save(fleet, made, snapshot)
    fleets = PostgresFleets(database)
    fleets.accept(fleets.target(fleet), made.id, "cli:ann", "a test", datetime.now(UTC))


@pytest.fixture
def there(operator: Api, database: Database) -> None:
    for fleet, mode in (("chat", "approve"), ("other", "observe")):  # no two serve models of one name
        assert operator.post("/fleets", {"spec": spec(fleet), "mode": mode}).status_code == 201
        planned(database, fleet)


def pools(api: Api, query: str = "") -> Sequence[dict[str, Any]]:
    answer = api.get(f"/pools{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def minute(database: Database, units: int, now: datetime) -> None:
    began = int(now.timestamp()) // 60 * 60 - 120
    work = OfferedWork(SEE, Unit.IMAGE_TOKEN, units, 0, units), OfferedWork(WRITE, Unit.OUTPUT_TOKEN, 0, 0, 0)
    line = OfferedLine("chat", APP, "chat", "", units // 64, 0, 0, 0, units // 64, 0, 0, work)
    PostgresDemand(database).record([("g", Offered("l", began, 60, 1, (line,)))], now)


@pytest.mark.usefixtures("there")
def test_pools_are_members_of_a_plan_and_what_is_asked_of_them(viewer: Api, database: Database) -> None:
    see, write = pools(viewer, "?fleet=chat")
    assert (see["work_class"], see["model"], see["stage"], write["stage"]) == (SEE, APP, "see", "write")
    assert (see["planned"], see["ready"], see["nodes"]) == (2, 0, {OFFER.node_config: 2})
    assert see["capacity_units_per_s"] == pytest.approx(2 * 0.85 * 100)
    assert (see["load_units_per_s"], see["load_of"], see["used"]) == (None, None, None)
    now = datetime.now(UTC)
    minute(database, 60 * 64, now)
    see, write = pools(viewer, "?fleet=chat")
    assert (see["load_units_per_s"], see["load_of"], see["used"]) == (64.0, "minute", pytest.approx(64 / 170))
    assert (write["load_units_per_s"], write["used"]) == (0.0, 0.0)
    work = RecentWork(SEE, Unit.IMAGE_TOKEN, 1700), RecentWork(WRITE, Unit.OUTPUT_TOKEN, 34)
    said = Recent(10.0, (RecentLine("chat", APP, 4, work, 0, 0),))
    PostgresDemand(database).hear_recent({"g/1": said, "g/2": said}, now)
    see, write = pools(viewer, "?fleet=chat")
    assert (see["load_units_per_s"], see["load_of"], see["used"]) == (340.0, "seconds", pytest.approx(2.0))
    assert write["used"] == pytest.approx(6.8 / 68)
    assert [each["load_of"] for each in pools(viewer, "?fleet=other")] == [None, None]


@pytest.mark.usefixtures("there")
def test_what_serves_by_an_earlier_plan_is_a_pool_too(viewer: Api, database: Database) -> None:
    serving(database, "chat", datetime.now(UTC))
    both, see, _ = pools(viewer, "?fleet=chat")
    assert (both["stage"], both["unit"], both["planned"], both["ready"]) == ("aggregated", "invocation", 0, 1)
    assert (both["capacity_units_per_s"], both["used"], see["ready"]) == (0.0, None, 0)


@pytest.mark.usefixtures("there")
def test_a_burst_stands_beside_its_pools_alone(viewer: Api, database: Database, database_url: str) -> None:
    now = datetime.now(UTC)
    until = now + timedelta(minutes=30)
    PostgresDemandOverrides(database).set("chat", Override(APP, 4.5, "burst", "see has 2", now, until))
    events = [FleetEvent(RECONCILER, BURST_EVENT, f"{name}: see has {n}", "chat") for n, name in enumerate((APP, "b"))]
    PostgresEvents(database).add(events, now)
    for each in pools(viewer, "?fleet=chat"):
        held = each["override"]
        assert (held["requests_per_s"], held["made_by"], held["reason"]) == (4.5, "burst", "see has 2")
        assert datetime.fromisoformat(held["expires_at"]) == until
        assert each["last_burst"]["text"] == f"{APP}: see has 0"
    assert [(each["override"], each["last_burst"]) for each in pools(viewer, "?fleet=other")] == [(None, None)] * 2
    shown = CliRunner().invoke(app, ["pools", "chat", "--database-url", database_url])
    assert shown.exit_code == 0, shown.output
    assert "0 of 2" in shown.stdout
    assert "set by burst: see has 2" in shown.stdout
    assert f"{APP}: see has 0" in shown.stdout
    told = CliRunner().invoke(app, ["pools", "-o", "json", "--database-url", database_url])
    assert [(each["fleet"], each["work_class"]) for each in json.loads(told.stdout)] == [
        (fleet, name) for fleet in ("chat", "other") for name in (SEE, WRITE)
    ]


@pytest.mark.usefixtures("there")
def test_pages_hold_all_pools_once(viewer: Api) -> None:
    found, cursor = list[tuple[str, str]](), ""
    for _ in range(4):
        answer = viewer.get(f"/pools?limit=1{cursor}").json()
        found += [(each["fleet"], each["work_class"]) for each in answer["items"]]
        cursor = f"&cursor={answer['next']}"
    assert answer["next"] is None
    assert found == [(fleet, name) for fleet in ("chat", "other") for name in (SEE, WRITE)]
    assert viewer.get("/pools?cursor=none").status_code == 400


def test_a_fleet_without_a_plan_has_no_pools(operator: Api, database_url: str) -> None:
    assert operator.post("/fleets", {"spec": spec(), "mode": "observe"}).status_code == 201
    assert pools(operator) == []
    assert CliRunner().invoke(app, ["pools", "--database-url", database_url]).exit_code == 0
    assert CliRunner().invoke(app, ["pools", "none", "--database-url", database_url]).exit_code == 1
