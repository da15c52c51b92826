"""Alerts over the API, as `medley alerts` shows them."""

from control.db.alerts import PostgresAlerts
from control.db.database import Database
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
