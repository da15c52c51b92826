"""Instances: told to drain, once and for a reason."""

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.lifecycle.event import Event, EventKind
from templates_lib.instance import Instance
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OFFER, kept_plan, serving, template


def test_an_instance_drains(operator: Api, viewer: Api, database: Database) -> None:
    kept_plan(database, "chat")
    instance = serving(database, "chat", now())
    assert viewer.post(f"/instances/{instance.id}:drain").status_code == 403
    drained = operator.post(f"/instances/{instance.id}:drain", {"reason": "a new driver"})
    assert (drained.status_code, drained.json()["state"]) == (200, "draining")
    assert operator.post(f"/instances/{instance.id}:drain").json()["state"] == "draining"
    last = operator.get(f"/instances/{instance.id}/history").json()["items"][-1]
    assert (last["event"], "a new driver" in last["reason"]) == ("drain", True)
    assert len(operator.get("/events?kind=instance.drained").json()["items"]) == 1


def test_one_that_does_not_serve_yet_is_given_back(operator: Api, database: Database) -> None:
    made = template()
    wanted = Instance("i0000000000aa", made.id, OFFER.zone_id, OFFER.market, "requested", (), fleet="chat")
    PostgresInstances(database).request(wanted, made, "plan-chat-1", now())
    assert operator.post("/instances/i0000000000aa:drain").json()["state"] == "terminating"


def test_one_that_has_failed_has_nothing_to_drain(operator: Api, database: Database) -> None:
    kept_plan(database, "chat")
    instance = serving(database, "chat", now())
    PostgresInstances(database).apply(instance.id, Event(EventKind.NODE_LOST, "preempted"), now())
    assert operator.post(f"/instances/{instance.id}:drain").status_code == 409
    unknown = operator.post("/instances/i000000000002:drain")
    assert (unknown.status_code, instance.id in unknown.json()["detail"]) == (404, True)
