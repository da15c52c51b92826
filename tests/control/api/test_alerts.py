"""Alerts over the API, as `medley alerts` shows them."""

from control.db.alerts import PostgresAlerts
from control.db.database import Database
from control.db.webhooks import PostgresWebhooks, Webhook
from policies.alert_rules import Alert, AlertKind, Severity
from tests.control.api.conftest import Api, now


def test_open_alerts_are_listed_in_pages_and_over_ones_on_request(viewer: Api, database: Database) -> None:
    alerts = PostgresAlerts(database)
    alerts.observe([Alert(AlertKind.LEAK, "cloud old", Severity.CRITICAL, "one")], (), now().replace(year=2025))
    alerts.observe([Alert(AlertKind.UNMET, f"fleet {n}", Severity.WARNING, "all of it") for n in range(3)], (), now())
    first = viewer.get("/alerts?limit=2").json()
    second = viewer.get(f"/alerts?limit=2&cursor={first['next']}").json()
    assert [a["subject"] for a in first["items"] + second["items"]] == ["fleet 2", "fleet 1", "fleet 0"]
    assert second["next"] is None
    assert {(a["kind"], a["severity"], a["resolved_at"]) for a in first["items"]} == {("demand.unmet", "warning", "")}
    (*_, over) = viewer.get("/alerts?all=true").json()["items"]
    assert (over["subject"], bool(over["resolved_at"])) == ("cloud old", True)


def test_every_kind_of_alert_has_its_rule(viewer: Api) -> None:
    rules = viewer.get("/alerts/rules").json()["items"]
    assert {rule["kind"] for rule in rules} == set(AlertKind)
    assert {"kind": "reconcile.stale", "when": "a fleet was not planned for 20 minutes"} in rules


def test_webhooks_are_for_admins_and_tell_what_waits(viewer: Api, admin: Api, database: Database) -> None:
    hook = Webhook("ops", "https://hooks.example.com/T0KEN", "env:OPS_SECRET", ("leak",), internal=False)
    PostgresWebhooks(database).put(hook, now())
    leak = Alert(AlertKind.LEAK, "cloud aws", Severity.CRITICAL, "one")
    PostgresAlerts(database).observe([leak], [hook], now())
    assert viewer.get("/webhooks").status_code == 403
    (shown,) = admin.get("/webhooks").json()["items"]
    assert (shown["name"], shown["secret"], shown["kinds"]) == ("ops", "env:OPS_SECRET", ["leak"])
    assert (shown["waiting"], shown["because"]) == (1, "")
