"""Who may do what: tokens, roles, sessions of browsers."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from tests.control.api.conftest import Api, now, token_of


def test_without_a_token_nothing_is_said(client: TestClient) -> None:
    for path in ("fleets", "tokens", "events", "instances", "session"):
        answer = client.get(f"/api/v1/{path}")
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer", "Bearer x", "Basic abc", "Bearer medley_000000000000_" + "0" * 64])
def test_a_wrong_token_is_as_good_as_none(client: TestClient, header: str) -> None:
    assert client.get("/api/v1/fleets", headers={"Authorization": header}).status_code == 401


def test_a_role_too_low_is_told_which_it_takes(viewer: Api, operator: Api) -> None:
    assert viewer.get("/fleets").status_code == 200
    refused = viewer.post("/fleets", {"spec": {}})
    assert (refused.status_code, refused.json()["facts"]) == (403, {"needs": "operator", "role": "viewer"})
    assert operator.post("/tokens", {"name": "x", "role": "viewer"}).status_code == 403


def test_a_client_of_the_gateway_sees_nothing_here(client: TestClient, database: Database) -> None:
    gateway_key = Api(client, token_of(database, Role.CLIENT))
    assert gateway_key.get("/fleets").status_code == 403
    assert client.post("/api/v1/session", json={"token": gateway_key.token}).status_code == 403


def test_a_token_that_is_revoked_works_no_more(admin: Api, client: TestClient) -> None:
    made = admin.post("/tokens", {"name": "ci", "role": "viewer", "requests_per_minute": 5}).json()
    assert made["priority"] == "standard"
    assert made["token"].startswith("medley_")
    holder = Api(client, made["token"])
    assert holder.get("/fleets").status_code == 200
    assert admin("DELETE", f"/tokens/{made['id']}").status_code == 204
    assert holder.get("/fleets").status_code == 401
    assert "token" not in admin.get(f"/tokens/{made['id']}").json()


def test_a_token_is_made_in_place_of_another_that_works_on_for_a_while(admin: Api, client: TestClient) -> None:
    asked = {"name": "ci", "role": "viewer", "tokens_per_minute": 9, "concurrent_requests": 2, "priority": "batch"}
    old = admin.post("/tokens", asked).json()
    new = admin.post(f"/tokens/{old['id']}:rotate", {"grace_hours": 1}).json()
    assert {name: new[name] for name in asked} == asked
    assert [Api(client, each["token"]).get("/fleets").status_code for each in (old, new)] == [200, 200]
    ends = datetime.fromisoformat(admin.get(f"/tokens/{old['id']}").json()["expires_at"])
    assert abs(ends - now() - timedelta(hours=1)) < timedelta(minutes=5)
    again = admin.post(f"/tokens/{old['id']}:rotate", {"grace_hours": 24})  # the length of its life is known no more
    assert (again.status_code, old["id"] in again.json()["detail"]) == (409, True)
    newest = admin.post(f"/tokens/{new['id']}:rotate", {"grace_hours": 0}).json()
    assert [Api(client, each["token"]).get("/fleets").status_code for each in (new, newest)] == [401, 200]
    assert admin.post(f"/tokens/{new['id']}:rotate", {}).status_code == 409
    assert admin.post(f"/tokens/{newest['id']}:rotate", {"grace_hours": 1e9}).status_code == 422


def test_a_token_that_ends_before_its_grace_is_said_to_end_then(admin: Api) -> None:
    ends = (now() + timedelta(hours=2)).replace(microsecond=0)
    old = admin.post("/tokens", {"name": "ci", "role": "viewer", "expires_at": ends.isoformat()}).json()
    admin.post(f"/tokens/{old['id']}:rotate", {"grace_hours": 24})
    assert datetime.fromisoformat(admin.get(f"/tokens/{old['id']}").json()["expires_at"]) == ends
    (event,) = admin.get(f"/events?subject={old['id']}&kind=token.rotated").json()["items"]
    assert f"{ends:%Y-%m-%dT%H:%M}" in event["text"]


def test_a_file_of_peppers_that_cannot_be_used_is_no_bug_and_is_not_shown(
    admin: Api, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "peppers"
    file.write_text("1" * 40)
    monkeypatch.setenv("MEDLEY_PEPPER_FILE", str(file))
    made = admin.post("/tokens", {"name": "ci", "role": "viewer"}).json()
    monkeypatch.setenv("MEDLEY_PEPPER_FILE", str(tmp_path / "none"))
    assert admin.get("/tokens").status_code == 200  # its token has no pepper
    for refused in (admin.post("/tokens", {"name": "no", "role": "viewer"}), Api(client, made["token"]).get("/fleets")):
        assert (refused.status_code, str(tmp_path) in refused.text) == (503, False)


def test_a_token_has_the_priority_that_it_was_made_with(admin: Api) -> None:
    made = admin.post("/tokens", {"name": "jobs", "role": "client", "priority": "batch"}).json()
    assert admin.get(f"/tokens/{made['id']}").json()["priority"] == "batch"
    assert admin.post("/tokens", {"name": "jobs", "role": "client", "priority": "urgent"}).status_code == 422


def test_what_somebody_does_is_on_record_with_its_trace(admin: Api) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = admin.post("/projects", {"name": "search"}, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    assert answer.headers["x-trace-id"] == trace
    (event,) = admin.get("/events?kind=project.created").json()["items"]
    assert event["actor"].startswith("token:")
    assert (event["subject"], event["trace"]) == ("search", trace)


def test_a_browser_signs_in_works_and_signs_out(client: TestClient, admin: Api) -> None:
    signed_in = client.post("/api/v1/session", json={"token": admin.token})
    assert signed_in.status_code == 201
    cookie = signed_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert admin.token not in cookie
    who = client.get("/api/v1/session").json()
    assert (who["role"], who["csrf_token"]) == ("admin", signed_in.json()["csrf_token"])
    forged = client.post("/api/v1/projects", json={"name": "a"})
    assert (forged.status_code, forged.json()["type"]) == (403, "urn:medley:problem:csrf")
    unsafe = {"X-CSRF-Token": who["csrf_token"]}
    assert client.post("/api/v1/projects", json={"name": "a"}, headers=unsafe).status_code == 201
    assert client.delete("/api/v1/session", headers=unsafe).status_code == 204
    client.cookies.set("medley_session", signed_in.headers["set-cookie"].split("=")[1].split(";")[0])
    assert client.get("/api/v1/session").status_code == 401


def test_over_https_the_cookie_stays_there(client: TestClient, admin: Api) -> None:
    client.base_url = client.base_url.copy_with(scheme="https")
    assert "secure" in client.post("/api/v1/session", json={"token": admin.token}).headers["set-cookie"].lower()


def test_a_session_ends_with_its_token(client: TestClient, database: Database) -> None:
    token, secret = PostgresApiTokens(database).create("short", Role.VIEWER, now(), now() + timedelta(minutes=5))
    signed_in = client.post("/api/v1/session", json={"token": secret.reveal()}).json()
    assert signed_in["expires_at"][:16] == token.expires_at.isoformat()[:16]
    assert client.get("/api/v1/fleets").status_code == 200
    PostgresApiTokens(database).revoke(token.id, now())
    assert client.get("/api/v1/fleets").status_code == 401
