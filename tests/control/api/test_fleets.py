"""Fleets as documents: the same as in spec files, checked alike, and changed with care."""

from pathlib import Path
from typing import Any

import pytest

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.lifecycle.event import Event, EventKind
from tests import hub_server
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OWN_CONFIG, kept_plan, serving, spec
from tests.hub_server import Hub

OTHER = {
    "model": "smollm2-135m-instruct",
    "name": "other",
    "slo": {"ttft_ms": 6000, "tpot_ms": 600, "keep": {"throughput": True}},
    "workload": "sharegpt",
    "demand": {"requests_per_s": 0.1},
}


def test_a_fleet_comes_back_as_it_was_sent(operator: Api) -> None:
    made = operator.post("/fleets", {"spec": spec()})
    assert (made.status_code, made.json()["spec"], made.json()["mode"]) == (201, spec(), "observe")
    found = operator.get("/fleets/chat")
    assert (found.json(), found.headers["etag"]) == (made.json(), made.headers["etag"])
    assert operator.post("/fleets", {"spec": spec()}).status_code == 409
    assert [fleet["name"] for fleet in operator.get("/fleets?project=default").json()["items"]] == ["chat"]


@pytest.mark.parametrize(
    ("change", "path", "hint"),
    [
        ({"modls": []}, "spec.modls", "did you mean 'models'"),
        ({"models": [OTHER | {"model": "smollm"}]}, "spec.models[0].model", "smollm2-135m-instruct"),
        ({"models": [OTHER | {"model": "/etc/passwd.json", "name": "x"}]}, "spec.models[0].model", "path"),
        ({"models": [OTHER | {"workload": "../../x.csv"}]}, "spec.models[0].workload", "path"),
        ({"models": [OTHER | {"weights": "path:/x"}]}, "spec.models[0].weights", "path"),
        ({"offers": {"files": ["/etc/shadow"]}}, "spec.offers.files[0]", "path"),
        ({"offers": {"availability": "x.csv"}}, "spec.offers.availability", "path"),
        ({"clouds": [{"cloud": "aws", "regions": ["us-est-1"]}]}, "spec.clouds[0].regions[0]", "us-east-1"),
        ({"policy": {"replicas": {"x/decode": {"min": 1}}}}, "spec.policy.replicas.x/decode", "unknown work class"),
    ],
)
def test_every_mistake_is_told_with_its_path(operator: Api, change: dict[str, Any], path: str, hint: str) -> None:
    refused = operator.post("/fleets", {"spec": spec(**change)})
    assert refused.status_code == 422
    assert any(e["path"] == path and hint in e["message"] for e in refused.json()["errors"]), refused.json()


def test_a_spec_of_great_depth_is_refused(operator: Api) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    assert operator.post("/fleets", {"spec": spec(offers=deep)}).status_code == 422


def test_a_change_keeps_the_name_and_needs_the_tag(operator: Api) -> None:
    tag = operator.post("/fleets", {"spec": spec()}).headers["etag"]
    assert operator("PUT", "/fleets/chat", {"spec": spec("chatty")}, If_Match=tag).status_code == 422
    changed = operator("PUT", "/fleets/chat", {"spec": spec(models=[OTHER]), "mode": "auto"}, If_Match=tag)
    assert (changed.status_code, changed.json()["version"], changed.json()["mode"]) == (200, 2, "auto")
    assert operator("PUT", "/fleets/chat", {"spec": spec()}, If_Match=tag).status_code == 412
    kinds = [event["kind"] for event in operator.get("/events?fleet=chat").json()["items"]]
    assert kinds == ["fleet.changed", "fleet.created"]


def test_to_remove_a_model_that_serves_is_asked_first(operator: Api, database: Database) -> None:
    tag = operator.post("/fleets", {"spec": spec()}).headers["etag"]
    kept_plan(database, "chat")
    serving(database, "chat", now())
    without = {"spec": spec(models=[OTHER])}
    refused = operator("PUT", "/fleets/chat", without, If_Match=tag)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:medley:problem:serves-traffic")
    lost = refused.json()["facts"]["models"]["smollm2-135m-instruct"]
    assert lost == {"instances": 1, "running": 0, "waiting": 0}
    assert operator("PUT", "/fleets/chat?confirm=other", without, If_Match=tag).status_code == 409
    assert operator("PUT", "/fleets/chat?confirm=smollm2-135m-instruct", without, If_Match=tag).status_code == 200


def test_a_fleet_that_runs_is_ended_once_it_is_confirmed(operator: Api, database: Database) -> None:
    tag = operator.post("/fleets", {"spec": spec()}).headers["etag"]
    kept_plan(database, "chat")
    instance = serving(database, "chat", now())
    assert operator("DELETE", "/fleets/chat", If_Match=tag).status_code == 409
    ending = operator("DELETE", "/fleets/chat?confirm=smollm2-135m-instruct", If_Match=tag)
    assert (ending.status_code, ending.json()["ending"]) == (202, True)
    stored = PostgresInstances(database)
    for kind in (EventKind.DRAIN, EventKind.DRAINED, EventKind.NODES_GONE):
        stored.apply(instance.id, Event(kind, "a test"), now())
    tag = operator.get("/fleets/chat").headers["etag"]
    assert operator("DELETE", "/fleets/chat", If_Match=tag).status_code == 204
    assert operator.get("/fleets/chat").status_code == 404


def test_a_model_of_ones_own_may_be_named_and_then_stays(operator: Api) -> None:
    config = OWN_CONFIG
    own = spec(models=[OTHER | {"model": "tiny"}])
    assert operator.post("/fleets", {"spec": own}).status_code == 422
    broken = operator.post("/models", {"name": "tiny", "config": config | {"num_hidden_layers": -1}})
    assert (broken.status_code, broken.json()["errors"][0]["path"]) == (422, "config.num_hidden_layers")
    made = operator.post("/models", {"name": "tiny", "config": config, "weights": "path:/models/tiny"})
    assert (made.status_code, made.json()["layers"], made.json()["source"]) == (201, 4, "registered")
    assert operator.post("/models", {"name": "smollm2-135m-instruct", "config": config}).status_code == 409
    assert operator.post("/fleets", {"spec": own}).status_code == 201
    refused = operator("DELETE", "/models/tiny", If_Match=made.headers["etag"])
    assert (refused.status_code, "chat" in refused.json()["detail"]) == (409, True)
    changed = operator("PUT", "/models/tiny", {"config": config | {"num_hidden_layers": 6}}, If_Match='"1"')
    assert (changed.json()["layers"], changed.headers["etag"]) == (6, '"2"')
    names = [model["name"] for model in operator.get("/models?limit=200").json()["items"]]
    assert "tiny" in names
    assert names == sorted(names)


def test_a_fleet_that_nodes_cannot_start_is_planned_and_never_acts(operator: Api) -> None:
    away = {"clouds": [{"cloud": "aws", "regions": ["us-east-2"], "gpus": ["L4"]}]}
    given = spec(models=[OTHER | {"engine": "vllm-stage"}], **away)
    refused = operator.post("/fleets", {"spec": given, "mode": "auto"})
    assert refused.status_code == 409
    assert "no engine vllm-stage" in refused.json()["detail"]
    assert operator.post("/fleets", {"spec": given}).status_code == 201
    assert operator("PUT", "/fleets/chat", {"spec": given, "mode": "approve"}, If_Match='"1"').status_code == 409
    given = spec(models=[OTHER], **away)
    assert operator("PUT", "/fleets/chat", {"spec": given, "mode": "approve"}, If_Match='"1"').status_code == 200


def test_a_model_that_its_engine_does_not_run_is_refused_where_it_is_named(operator: Api, admin: Api) -> None:
    assert admin.post("/models", {"name": "own", "config": OWN_CONFIG | {"model_type": "mamba"}}).status_code == 201
    refused = operator.post("/fleets", {"spec": spec(models=[OTHER | {"model": "own"}])})
    (error,) = refused.json()["errors"]
    assert (refused.status_code, error["path"]) == (422, "spec.models[0].engine")
    assert "mamba" in error["message"]


def test_a_fleet_is_not_to_act_whose_weights_nodes_could_not_fetch(
    operator: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rented = {"models": [OTHER | {"model": "gpt-oss-20b"}], "clouds": [{"cloud": "aws", "gpus": ["L40S"]}]}
    wanted = {"spec": spec(**rented), "mode": "approve"}
    with hub_server.serving(Hub({"openai/elsewhere": {"config.json": b"{}"}})) as hub:
        hub_server.use(hub, tmp_path, monkeypatch)
        refused = operator.post("/fleets", wanted)
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:medley:problem:fails-preflight")
        failed = {each["name"] for each in refused.json()["facts"]["checks"] if each["status"] == "fail"}
        assert failed == {"weights.repository"}
        assert operator.get("/fleets/chat").status_code == 404, "nothing was stored"
        watched = operator.post("/fleets", wanted | {"mode": "observe"})
        assert watched.status_code == 201, "nothing is rented for it"
        tag = watched.headers["etag"]
        assert operator("PUT", "/fleets/chat", wanted, If_Match=tag).status_code == 422
        all_the_same = operator("PUT", "/fleets/chat", wanted | {"preflight": False}, If_Match=tag)
        assert (all_the_same.status_code, all_the_same.json()["mode"]) == (200, "approve")
