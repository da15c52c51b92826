"""Webhooks over the API: made, changed, tried and removed by admins, and never a way to what is not theirs."""

import hashlib
import hmac
import json
from typing import Any

import pytest

from control.db.alerts import PostgresAlerts
from control.db.database import Database
from control.db.events import PostgresEvents
from control.db.webhooks import MOST, PostgresWebhooks, Webhook
from policies.alert_rules import Alert, AlertKind, Severity
from tests.control.alerts.receiver import Receiver
from tests.control.api.conftest import Api, now

SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105
URL = "https://hooks.example.com/T0KEN"
HOOK: dict[str, Any] = {"url": URL, "secret": "env:MEDLEY_WEBHOOK_OPS", "kinds": ["leak"]}


def put(admin: Api, body: dict[str, Any] = HOOK, name: str = "ops", **headers: str) -> Any:
    return admin("PUT", f"/webhooks/{name}", body, **(headers or {"If_None_Match": "*"}))


def test_an_admin_makes_changes_and_removes_one_and_all_of_it_is_on_record(admin: Api, database: Database) -> None:
    made = put(admin)
    assert (made.status_code, made.headers["ETag"]) == (201, '"1"')
    assert made.json()["secret"] == HOOK["secret"]
    assert put(admin).status_code == 412, "there is one"
    assert put(admin, If_Match='"2"').status_code == 412
    assert admin("PUT", "/webhooks/ops", HOOK).status_code == 428
    changed = put(admin, {"url": URL, "kinds": ["leak", "leak", "offers.none"]}, If_Match='"1"')
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert (changed.json()["secret"], changed.json()["kinds"]) == (HOOK["secret"], ["leak", "offers.none"])
    assert admin.get("/webhooks/ops").headers["ETag"] == '"2"'
    assert [each["name"] for each in admin.get("/webhooks").json()["items"]] == ["ops"]
    assert admin("DELETE", "/webhooks/ops", If_Match='"1"').status_code == 412
    assert admin("DELETE", "/webhooks/ops", If_Match='"2"').status_code == 204
    assert admin.get("/webhooks/ops").status_code == 404
    events = [each.event for each in PostgresEvents(database).page(9, subject="ops")]
    assert [each.kind for each in reversed(events)] == ["webhook.made", "webhook.changed", "webhook.removed"]
    assert all(each.actor.startswith("token:") and "T0KEN" not in each.text for each in events)


def test_nobody_but_admins_reads_or_writes_them(viewer: Api, operator: Api, admin: Api) -> None:
    assert put(admin).status_code == 201
    for caller in (viewer, operator):
        answers = (
            caller.get("/webhooks"),
            caller.get("/webhooks/ops"),
            put(caller, name="mine"),
            caller("DELETE", "/webhooks/ops", If_Match='"1"'),
            caller.post("/webhooks/ops:test"),
        )
        assert [answer.status_code for answer in answers] == [403] * 5


def test_a_browser_needs_its_csrf_token(admin: Api) -> None:
    assert admin.raw.post("/api/v1/session", json={"token": admin.token}).status_code == 201
    headers = {"If-None-Match": "*"}
    assert admin.raw.put("/api/v1/webhooks/ops", json=HOOK, headers=headers).status_code == 403
    headers["X-CSRF-Token"] = admin.raw.get("/api/v1/session").json()["csrf_token"]
    assert admin.raw.put("/api/v1/webhooks/ops", json=HOOK, headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"url": "http://hooks.example.com/"}, "url"),
        ({"url": "https://user:word@hooks.example.com/"}, "url"),
        ({"url": "file:///etc/passwd", "internal": True}, "url"),
        ({"url": "https://hooks.example.com/#a"}, "url"),
        ({"secret": SECRET}, "secret"),
        ({"secret": "env:MEDLEY_DATABASE_URL"}, "secret"),
        ({"secret": "file:/etc/shadow"}, "secret"),
        ({"secret": None}, "secret"),
        ({"kinds": ["leaks"]}, "kinds[0]"),
        ({"intern": True}, "intern"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_stored(admin: Api, wrong: dict[str, Any], field: str) -> None:
    refused = put(admin, HOOK | wrong)
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [field]
    assert SECRET not in refused.text
    assert admin.get("/webhooks").json() == {"items": []}


def test_one_that_the_command_line_has_made_keeps_its_secret(admin: Api, database: Database) -> None:
    PostgresWebhooks(database).put(Webhook("ops", URL, "file:/run/secrets/ops", (), internal=False), now())
    changed = put(admin, {"url": URL, "kinds": ["leak"]}, If_Match='"1"').json()
    assert (changed["secret"], changed["kinds"]) == ("file:/run/secrets/ops", ["leak"])


def test_there_are_not_more_than_can_be_told(admin: Api, database: Database) -> None:
    hooks = PostgresWebhooks(database)
    for number in range(MOST):
        hooks.put(Webhook(f"h{number}", URL, "env:MEDLEY_WEBHOOK_OPS", (), internal=False), now())
    refused = put(admin)
    assert (refused.status_code, "remove one" in refused.json()["detail"]) == (409, True)


def test_what_waits_is_told_and_goes_with_the_webhook(admin: Api, database: Database) -> None:
    put(admin)
    leak, hooks = Alert(AlertKind.LEAK, "cloud aws", Severity.CRITICAL, "one"), PostgresWebhooks(database).all()
    alerts = PostgresAlerts(database)
    alerts.observe([leak], hooks, now())
    shown = admin.get("/webhooks/ops").json()
    assert (shown["waiting"], shown["because"]) == (1, "")
    assert admin("DELETE", "/webhooks/ops", If_Match='"1"').status_code == 204
    assert alerts.pending() == {}
    alerts.observe([Alert(AlertKind.UNMET, "fleet f", Severity.WARNING, "some")], hooks, now())
    assert alerts.pending() == {}, "who looked before does not know yet that it is gone"


def test_a_trial_is_sent_at_once_signed_as_alerts_are(
    admin: Api, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_WEBHOOK_OPS", SECRET)
    put(admin, {"url": f"{receiver.url}/hook", "secret": HOOK["secret"], "internal": True})
    assert admin.post("/webhooks/ops:test").json() == {"delivered": True, "outcome": "HTTP 204"}
    ((path, headers, body),) = receiver.got
    assert (path, json.loads(body)["event"], headers["Medley-Event"]) == ("/hook", "webhook.test", "webhook.test")
    at, digest = (part.partition("=")[2] for part in headers["Medley-Signature"].split(","))
    assert digest == hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    receiver.answers = [500]
    assert admin.post("/webhooks/ops:test").json() == {"delivered": False, "outcome": "HTTP 500"}
    assert admin.post("/webhooks/none:test").status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "100.100.100.200"])
def test_nothing_is_sent_where_it_must_not_go(admin: Api, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDLEY_WEBHOOK_OPS", SECRET)
    put(admin, HOOK | {"url": f"https://{host}/"})
    tried = admin.post("/webhooks/ops:test").json()
    assert (tried["delivered"], "which nothing is sent to" in tried["outcome"]) == (False, True)


def test_a_trial_without_its_secret_says_where_that_was_looked_for(admin: Api) -> None:
    put(admin)
    tried = admin.post("/webhooks/ops:test").json()
    assert (tried["delivered"], "env:MEDLEY_WEBHOOK_OPS" in tried["outcome"]) == (False, True)
