"""Spec files while they are written: checked by line, begun from a first one, stored as they are written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.lifecycle.fleet import FleetMode
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import kept_plan, serving, spec

TEXT = f"# what we serve\n{yaml.safe_dump(spec(), sort_keys=False)}"


def test_a_spec_is_checked_and_nothing_of_it_is_kept(viewer: Api) -> None:
    found = viewer.post("/specs:check", {"source": TEXT}).json()
    assert (found["name"], found["models"], found["problems"]) == ("chat", ["smollm2-135m-instruct"], [])
    assert found["spec"] == spec()
    assert viewer.get("/fleets").json()["items"] == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("kind: Fleet", "kind: Fleat"), 3),
        (("ttft_ms: 60000", "ttft_ms: fast"), 8),
        (("workload: sharegpt", "workload: /etc/passwd.csv"), 13),
        (("name: chat", "name: [chat"), 5),
    ],
)
def test_each_mistake_is_said_at_its_line(viewer: Api, operator: Api, change: tuple[str, str], line: int) -> None:
    wrong = TEXT.replace(*change)
    assert wrong != TEXT
    found = viewer.post("/specs:check", {"source": wrong}).json()
    assert (found["name"], found["spec"]) == ("", None)
    assert line in [each["line"] for each in found["problems"]], found
    refused = operator.post("/fleets", {"source": wrong})
    assert refused.status_code == 422
    assert any(f"line {line}:" in each["message"] for each in refused.json()["errors"])


def test_a_fleet_keeps_its_text_with_the_comments(operator: Api) -> None:
    made = operator.post("/fleets", {"source": TEXT, "project": "default"})
    assert (made.status_code, made.json()["spec"]) == (201, spec())
    stored = operator.get("/fleets/chat/source")
    assert (stored.json(), stored.headers["etag"]) == ({"source": TEXT, "files": []}, made.headers["etag"])
    text = TEXT.replace("# what we serve", "# what they serve")
    changed = operator("PUT", "/fleets/chat", {"source": text}, If_Match=stored.headers["etag"])
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    assert operator.get("/fleets/chat/source").json()["source"] == text


def test_one_that_was_sent_as_a_document_is_shown_as_yaml(operator: Api) -> None:
    operator.post("/fleets", {"spec": spec()})
    shown = operator.get("/fleets/chat/source").json()["source"]
    assert yaml.safe_load(shown) == spec()
    assert shown.startswith("apiVersion:")


def test_files_that_a_spec_names_are_named(operator: Api, database: Database, tmp_path: Path) -> None:
    text = TEXT.replace("workload: sharegpt", "workload: ours.csv")
    PostgresFleets(database).create("chat", text, now(), folder=str(tmp_path))
    assert operator.get("/fleets/chat/source").json()["files"] == [str(tmp_path / "ours.csv")]


@pytest.mark.parametrize("body", [{}, {"spec": spec(), "source": TEXT}, {"source": None}])
def test_a_fleet_is_a_document_or_a_text(operator: Api, body: dict[str, Any]) -> None:
    assert operator.post("/fleets", body).status_code == 422


def test_the_mode_changes_and_the_spec_stays(operator: Api, viewer: Api) -> None:
    operator.post("/fleets", {"source": TEXT})
    assert viewer.post("/fleets/chat:set-mode", {"mode": "auto"}).status_code == 403
    changed = operator.post("/fleets/chat:set-mode", {"mode": "approve"})
    assert (changed.status_code, changed.json()["mode"], changed.headers["etag"]) == (200, "approve", '"2"')
    assert operator.get("/fleets/chat/source").json()["source"] == TEXT
    assert operator.post("/fleets/nobody:set-mode", {"mode": "auto"}).status_code == 404
    assert operator.post("/fleets/chat:set-mode", {"mode": "loud"}).status_code == 422


def test_a_text_that_drops_a_served_model_needs_a_second_word(operator: Api, database: Database) -> None:
    operator.post("/fleets", {"source": TEXT, "mode": FleetMode.APPROVE})
    kept_plan(database, "chat")
    serving(database, "chat", now())
    text = TEXT.replace("- model: smollm2-135m-instruct", "- name: other\n  model: smollm2-135m-instruct")
    refused = operator("PUT", "/fleets/chat", {"source": text}, If_Match='"1"')
    assert (refused.status_code, list(refused.json()["facts"]["models"])) == (409, ["smollm2-135m-instruct"])
    confirmed = operator("PUT", "/fleets/chat?confirm=smollm2-135m-instruct", {"source": text}, If_Match='"1"')
    assert confirmed.status_code == 200


@pytest.mark.parametrize("asked", ["cloud=aws", "cloud=local", "cloud=gcp&model=qwen3-32b&requests_per_s=2.5&name=a"])
def test_a_first_spec_can_be_planned(viewer: Api, asked: str) -> None:
    begun = viewer.get(f"/specs/starter?{asked}").json()["source"]
    assert viewer.post("/specs:check", {"source": begun}).json()["problems"] == []


def test_what_is_asked_of_a_first_spec_stays_one_value(viewer: Api) -> None:
    begun = viewer.get("/specs/starter?cloud=aws%0A%20%20-%20cloud%3A%20gcp&model=a%3A%20b").json()["source"]
    document = yaml.safe_load(begun)
    assert [each["cloud"] for each in document["clouds"]] == ["aws\n  - cloud: gcp"]
    assert document["models"][0]["model"] == "a: b"
    assert viewer.post("/specs:check", {"source": begun}).json()["problems"]
