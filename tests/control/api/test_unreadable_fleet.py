"""A fleet whose stored spec can no longer be read is set aside by name: all that is asked about others is answered."""

from typing import Any

import msgspec
import pytest

from control.db.database import Database
from control.db.fleets import PostgresFleets
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import kept_plan, spec

BEFORE = {"reconcile": {"replan_minutes": "as of an earlier release"}}
UNREADABLE = {
    "a control character": msgspec.json.encode(spec("odd")).decode().replace("sharegpt", "share\x07gpt"),
    "a key of an earlier release": msgspec.json.encode(spec("odd", **BEFORE, modls=[7])).decode(),
    "no mapping": "- apiVersion\n",
    "sections of other kinds": "models: [1, {model: 2}]\nclouds: 3\nreconcile: [4]\n",
    "half a document": '{"models": [',
}


@pytest.mark.parametrize("stored", UNREADABLE.values(), ids=UNREADABLE)
def test_every_question_about_others_is_answered(operator: Api, database: Database, stored: str) -> None:
    operator.post("/fleets", {"spec": spec()})
    before = _asked(operator, "chat")
    PostgresFleets(database).create("odd", stored, now())
    kept_plan(database, "odd")
    found = operator.get("/fleets").json()["items"]
    assert {fleet["name"]: fleet["spec"] for fleet in found}["chat"] == spec()
    assert _asked(operator, "chat") == before


def test_what_cannot_be_parsed_is_shown_with_the_reason(operator: Api, database: Database) -> None:
    PostgresFleets(database).create("odd", UNREADABLE["a control character"], now())
    found = operator.get("/fleets/odd").json()
    assert found["spec"] == {}
    assert "cannot be read" in found["trouble"]
    assert max(_asked(operator, "odd").values()) < 500
    assert operator("DELETE", "/fleets/odd", If_Match='"1"').status_code == 204


def _asked(api: Api, fleet: str) -> dict[str, int]:
    """Ask everything that is asked with no more than a fleet's name, and return the status by path; streams apart,
    which do not end."""
    paths: dict[str, Any] = api.raw.get("/api/v1/openapi.json").json()["paths"]
    named = [path.replace("{fleet}", fleet) for path, methods in paths.items() if "get" in methods]
    asked = [path for path in named if "{" not in path and ":follow" not in path and path.startswith("/api/v1/")]
    assert len(asked) > 15
    return {path: api.get(path.removeprefix("/api/v1")).status_code for path in asked}
