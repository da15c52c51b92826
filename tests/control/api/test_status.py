"""`/status` says what `medley status` says."""

from datetime import datetime, timedelta

from control.db.database import Database
from control.db.live_offers import PostgresOffers
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import kept_plan, spec


def test_a_cloud_that_is_left_out_is_named_with_the_reason(viewer: Api, database: Database) -> None:
    assert viewer.get("/status").json() == {
        "clouds": [],
        "instances": {"states": {}, "running": 0, "waiting": 0},
        "fleets": [],
        "solves": [],
    }
    PostgresOffers(database).failed("aws", "aws-api", "the key was revoked", "the key was revoked", now())
    (aws,) = viewer.get("/status").json()["clouds"]
    revoked = "the key was revoked"
    assert aws == {"cloud": "aws", "left_out": revoked, "failure": revoked, "fleets": []}


def test_a_fleet_is_told_when_it_was_planned_and_when_it_is_again(
    operator: Api, viewer: Api, database: Database
) -> None:
    for name, reconcile in (("chat", {"replan_minutes": 10}), ("idle", {})):
        assert operator.post("/fleets", {"spec": spec(name, reconcile=reconcile)}).status_code == 201
    made = kept_plan(database, "chat")
    chat, idle = viewer.get("/status").json()["solves"]
    assert (chat["fleet"], chat["plan"], chat["summary"]["gap"]) == ("chat", made.id, 0.0)
    waited = datetime.fromisoformat(chat["again_by"]) - datetime.fromisoformat(chat["planned_at"])
    assert waited == timedelta(minutes=10)
    assert (idle["fleet"], idle["plan"], idle["again_by"], idle["summary"]) == ("idle", "", None, None)
