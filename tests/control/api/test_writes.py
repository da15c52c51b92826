"""Writes that meet: conditional, repeated, too large, and in a form that nobody can read."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from control.api.settings import ApiSettings
from control.db.database import Database
from control.db.idempotent_answers import PostgresAnswers
from tests.control.api.conftest import Api, app_of, now
from tests.control.api.worlds import spec


def test_a_write_says_what_it_has_read(admin: Api) -> None:
    made = admin.post("/projects", {"name": "search"})
    tag, change = made.headers["etag"], {"description": "of the search team"}
    assert admin("PUT", "/projects/search", change).status_code == 428
    assert admin("PUT", "/projects/search", change, If_Match='"7"').status_code == 412
    assert admin("PUT", "/projects/search", change, If_Match="*").status_code == 412
    changed = admin("PUT", "/projects/search", change, If_Match=tag)
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    assert admin.get("/projects/search").headers["etag"] == changed.headers["etag"]


def test_limits_of_a_project_stay_until_others_are_given(admin: Api) -> None:
    limits = {"requests_per_minute": None, "tokens_per_minute": 500, "concurrent_requests": 2}
    made = admin.post("/projects", {"name": "search", "limits": {"tokens_per_minute": 500, "concurrent_requests": 2}})
    assert made.json()["limits"] == limits
    changed = admin("PUT", "/projects/search", {"description": "new"}, If_Match=made.headers["etag"])
    assert changed.json()["limits"] == limits
    change = {"description": "new", "limits": {"requests_per_minute": 0}}
    assert admin("PUT", "/projects/search", change, If_Match=changed.headers["etag"]).status_code == 422
    freed = admin("PUT", "/projects/search", {"description": "", "limits": {}}, If_Match=changed.headers["etag"])
    assert set(freed.json()["limits"].values()) == {None}


def test_of_two_writes_at_once_one_wins(admin: Api) -> None:
    tag = admin.post("/projects", {"name": "search"}).headers["etag"]

    def write(number: int) -> int:
        answer = admin("PUT", "/projects/search", {"description": str(number)}, If_Match=tag)
        return int(answer.status_code)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(write, range(8))) == [200] + [412] * 7
    assert len(admin.get("/events?kind=project.changed").json()["items"]) == 1


def test_an_answer_that_was_put_in_a_safe_place_is_forgotten(admin: Api, operator: Api) -> None:
    ask = {"name": "bot", "role": "client"}
    first = admin.post("/tokens", ask, Idempotency_Key="k1").json()
    assert operator("DELETE", "/idempotency-keys/k1").status_code == 204  # its own, of which there is none
    assert admin.post("/tokens", ask, Idempotency_Key="k1").json() == first
    for _ in range(2):
        assert admin("DELETE", "/idempotency-keys/k1").status_code == 204
    assert admin.post("/tokens", ask, Idempotency_Key="k1").json()["id"] != first["id"]


def test_a_model_is_checked_and_not_registered(operator: Api) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 512,
        "max_position_embeddings": 1024, "torch_dtype": "bfloat16",
    }  # fmt: skip
    checked = operator.post("/models:check", {"name": "own", "config": config})
    assert (checked.status_code, checked.json()["layers"]) == (200, 2), checked.text
    assert operator.get("/models/own").status_code == 404
    made = operator.post("/models", {"name": "own", "config": config}).json()
    assert {k: v for k, v in checked.json().items() if k not in ("version", "updated_at")}.items() <= made.items()
    assert operator.post("/models:check", {"name": "own", "config": {}}).status_code == 422
    assert operator.post("/models:check", {"name": "qwen3-32b", "config": config}).status_code == 409


def test_a_draft_is_held_to_the_budget_of_a_project_that_is_there(operator: Api) -> None:
    assert operator.post("/plans", {"spec": spec(), "project": "defualt"}).json()["errors"][0]["path"] == "project"
    assert operator.post("/plans", {"fleet": "chat", "project": "default"}).status_code == 422
    for project in ("default", ""):
        assert operator.post("/plans", {"spec": spec(), "project": project}).status_code == 202


def test_a_project_with_fleets_stays(admin: Api) -> None:
    tag = admin.post("/projects", {"name": "search"}).headers["etag"]
    assert admin.post("/fleets", {"spec": spec(), "project": "search"}).status_code == 201
    refused = admin("DELETE", "/projects/search", If_Match=tag)
    assert (refused.status_code, "1 fleets" in refused.json()["detail"]) == (409, True)
    unknown = admin.post("/fleets", {"spec": spec("other"), "project": "serch"})
    assert (unknown.status_code, unknown.json()["errors"][0]["path"]) == (422, "project")
    assert "'search'" in unknown.json()["errors"][0]["message"]


def test_a_repeated_request_is_done_once(admin: Api, database: Database) -> None:
    """Even where the answer holds what the database must not."""
    ask = {"name": "ci", "role": "viewer"}
    first = admin.post("/tokens", ask, Idempotency_Key="k1")
    again = admin.post("/tokens", ask, Idempotency_Key="k1")
    assert (again.status_code, again.json(), again.headers["location"]) == (
        201,
        first.json(),
        first.headers["location"],
    )
    assert again.headers["idempotency-replayed"] == "true"
    assert len([t for t in admin.get("/tokens").json()["items"] if t["name"] == "ci"]) == 1
    with database.transaction() as connection:
        rows = connection.execute(text("SELECT t::text FROM idempotent_answer t")).scalars().all()
    assert rows
    assert not any(first.json()["token"].rpartition("_")[2] in row or "k1" in row for row in rows)
    assert admin.post("/tokens", ask | {"role": "admin"}, Idempotency_Key="k1").status_code == 422


def test_a_refusal_is_not_kept_under_its_key(admin: Api) -> None:
    assert admin.post("/projects", {"nam": "a"}, Idempotency_Key="k").status_code == 422
    assert admin.post("/projects", {"name": "a"}, Idempotency_Key="k").status_code == 201


def test_keys_of_two_callers_are_two(admin: Api, operator: Api) -> None:
    assert admin.post("/fleets", {"spec": spec("one")}, Idempotency_Key="k").status_code == 201
    assert operator.post("/fleets", {"spec": spec("two")}, Idempotency_Key="k").status_code == 201


def test_the_second_waits_for_the_first(admin: Api, database: Database) -> None:
    """Its answer is on its way, in another process say: neither is it done twice, nor forgotten."""
    first = admin.post("/projects", {"name": "a"}, Idempotency_Key="k")
    assert first.status_code == 201
    with database.transaction() as connection:
        connection.execute(text("UPDATE idempotent_answer SET answer = NULL"))
    waiting = admin.post("/projects", {"name": "a"}, Idempotency_Key="k")
    assert (waiting.status_code, waiting.headers["retry-after"]) == (409, "1")
    with database.transaction() as connection:
        connection.execute(text("UPDATE idempotent_answer SET created_at = created_at - interval '1 hour'"))
    assert admin.post("/projects", {"name": "a"}, Idempotency_Key="k").json()["type"].endswith(":conflict")


def test_many_at_once_under_one_key_are_one(admin: Api) -> None:
    def ask(_: int) -> int:
        return int(admin.post("/projects", {"name": "a"}, Idempotency_Key="k").status_code)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert set(found) <= {201, 409}
    assert len(admin.get("/events?kind=project.created").json()["items"]) == 1


@pytest.mark.parametrize(
    ("body", "path", "hint"),
    [
        ({"nam": "x"}, "nam", "did you mean 'name'"),
        ({"name": "x y"}, "name", "pattern"),
        ({"name": "x", "description": "a\0b"}, "description", "NUL"),
    ],
)
def test_a_wrong_field_is_named(admin: Api, body: Any, path: str, hint: str) -> None:
    refused = admin.post("/projects", body)
    assert refused.status_code == 422
    assert any(e["path"] == path and hint in e["message"] for e in refused.json()["errors"]), refused.json()


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"name": "a"}', "text/plain", 415),
        (b'{"name": "\xff"}', "application/json", 400),
        (b" " * (1 << 21), "application/json", 413),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(admin: Api, content: bytes, kind: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": kind}
    answer = admin.raw.post("/api/v1/projects", content=content, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_a_body_in_parts_is_bounded_too(database: Database, admin: Api, tmp_path: Path) -> None:
    parts = (b" " * 1000 for _ in range(100))
    with TestClient(app_of(database, tmp_path, ApiSettings(max_body_bytes=50_000, workers=0))) as client:
        headers = {"Authorization": f"Bearer {admin.token}", "Content-Type": "application/json"}
        assert client.post("/api/v1/projects", content=parts, headers=headers).status_code == 413


def test_answers_older_than_a_day_are_dropped(admin: Api, database: Database) -> None:
    admin.post("/projects", {"name": "a"}, Idempotency_Key="k")
    answers = PostgresAnswers(database)
    answers.drop_older(now())
    with database.transaction() as connection:
        assert connection.execute(text("SELECT count(*) FROM idempotent_answer")).scalar() == 0
