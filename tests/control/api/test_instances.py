"""Instances: told to drain, once and for a reason."""

from datetime import timedelta
from pathlib import Path

from control.access.secret import new_secret
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.lifecycle.event import Event, EventKind
from templates_lib.values.instance import Instance
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OFFER, kept_plan, serving, template


def test_an_instance_drains(operator: Api, viewer: Api, database: Database) -> None:
    kept_plan(database, "chat")
    instance = serving(database, "chat", now())
    assert viewer.get("/status").json()["instances"] == {"states": {"ready": 1}, "running": 0, "waiting": 0}
    assert viewer.post(f"/instances/{instance.id}:drain").status_code == 403
    drained = operator.post(f"/instances/{instance.id}:drain", {"reason": "a new driver"})
    assert (drained.status_code, drained.json()["state"]) == (200, "draining")
    assert operator.post(f"/instances/{instance.id}:drain").json()["state"] == "draining"
    assert viewer.get("/status").json()["instances"]["states"] == {"draining": 1}
    last = operator.get(f"/instances/{instance.id}/history").json()["items"][-1]
    assert (last["event"], "a new driver" in last["reason"]) == ("drain", True)
    assert len(operator.get("/events?kind=instance.drained").json()["items"]) == 1


def test_what_flows_through_it_is_of_its_model(viewer: Api, database: Database) -> None:
    kept_plan(database, "chat")
    instance = serving(database, "chat", now())
    found = viewer.get(f"/instances/{instance.id}/links").json()
    assert found == {"tokens_per_s": None, "stages": [], "hand_off": None}  # one stage, and nobody counted
    assert viewer.get("/instances/i000000000099/links").status_code == 404


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


def test_what_its_nodes_have_said_is_shown(viewer: Api, database: Database, tmp_path: Path) -> None:
    made = template()
    wanted = Instance("i0000000000aa", made.id, "local/here", OFFER.market, "requested", (), fleet="chat")
    instances, intents = PostgresInstances(database), PostgresIntents(database)
    instances.request(wanted, made, "plan-chat-1", now())
    instances.apply(wanted.id, Event(EventKind.PROVISION, "a test"), now())
    soon = now() + timedelta(minutes=5)
    places = ("local", "local", "aws")
    names = [
        intents.open_create(wanted.id, n, f"{cloud}/here/x/on-demand", cloud, 1.0, new_secret(), soon, now())
        for n, cloud in enumerate(places)
    ]
    logs = tmp_path / "control" / "local-cloud" / "logs"
    logs.mkdir(parents=True)
    (logs / f"{names[0]}.log").write_bytes(b"x" * 100 + b"ready\xff\n")
    first, second, third = viewer.get("/instances/i0000000000aa/logs?tail_bytes=7").json()["items"]
    assert (first["node"], first["text"], first["size_bytes"], first["missing"]) == (names[0], "ready\ufffd\n", 107, "")
    assert (second["text"], "medley reconcile" in second["missing"]) == ("", True)
    assert "aws" in third["missing"]
    (logs / f"{names[0]}.log").write_text("".join(f"line {n} {'LOADED' if n % 3 == 0 else 'x'}\n" for n in range(10)))
    first, second, _ = viewer.get("/instances/i0000000000aa/logs:find?text=loaded&limit=2").json()["items"]
    assert (first["lines"], first["are_all"]) == (["line 6 LOADED", "line 9 LOADED"], False)
    assert (second["lines"], "medley reconcile" in second["missing"]) == ([], True)
    (first, *_) = viewer.get("/instances/i0000000000aa/logs:find?text=line 3&limit=2").json()["items"]
    assert (first["lines"], first["are_all"]) == (["line 3 LOADED"], True)
    assert viewer.get("/instances/i0000000000aa/logs:find?text=").status_code == 422
