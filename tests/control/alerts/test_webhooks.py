"""Alerts and their deliveries, to a real HTTP server: signed, once, again when refused, and nowhere else."""

import hashlib
import hmac
import json
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.access.secret import new_secret
from control.alerts.endpoint import Endpoint, NotSentError, post
from control.alerts.secret_source import NoSecretError, check_source, read_secret
from control.alerts.sender import ATTEMPTS, AlertSender, SendReport
from control.alerts.watch import AlertWatch
from control.cli.main import app
from control.db.alerts import CALM, PostgresAlerts
from control.db.budgets import PostgresBudgets, Scope
from control.db.database import Database
from control.db.intents import PostgresIntents
from control.db.webhooks import PostgresWebhooks, Webhook
from control.lifecycle.event import EventKind
from policies.alert_rules import Alert, AlertKind, Severity
from policies.budget import Budget
from tests.control.alerts.receiver import Receiver
from tests.control.lifecycle.worlds import driven

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105
LEAK = Alert(AlertKind.LEAK, "cloud aws", Severity.CRITICAL, "a node")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sender(database: Database, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AlertSender:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    hook = Webhook("ops", f"{receiver.url}/hook?team=a", "env:HOOK_SECRET", (), internal=True)
    PostgresWebhooks(database).put(hook, NOW)
    return AlertSender(PostgresAlerts(database), clock)


def observe(sender: AlertSender, *firing: Alert) -> None:
    sender.alerts.observe(firing, PostgresWebhooks(sender.alerts.database).all(), sender.clock())


def test_an_alert_is_sent_once_signed_and_again_when_it_is_over(
    sender: AlertSender, receiver: Receiver, clock: Clock
) -> None:
    observe(sender, LEAK)
    observe(sender, LEAK)
    assert sender.send_due() == SendReport(1, 0)
    assert sender.send_due() == SendReport()
    ((path, headers, body),) = receiver.got
    assert path == "/hook?team=a"
    told = json.loads(body)
    assert (told["event"], told["alert"]["kind"], told["alert"]["severity"]) == ("alert.opened", "leak", "critical")
    at, digest = (part.partition("=")[2] for part in headers["Medley-Signature"].split(","))
    assert int(at) == int(NOW.timestamp())
    assert digest == hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    clock.now += CALM / 2
    observe(sender)
    assert sender.send_due() == SendReport(), "what comes and goes is one alert"
    clock.now += CALM / 2
    observe(sender)
    assert sender.send_due() == SendReport(1, 0)
    assert json.loads(receiver.got[1][2])["event"] == "alert.resolved"
    assert [bool(alert.resolved_at) for alert in sender.alerts.recent(9)] == [True]


def test_a_worse_alert_is_sent_again_and_a_better_one_is_not(sender: AlertSender, receiver: Receiver) -> None:
    near, over = (Alert(AlertKind.BUDGET_MONTH, "fleet f", s, s.name) for s in (Severity.WARNING, Severity.CRITICAL))
    for alert in (near, over, near, over):
        observe(sender, alert)
        sender.send_due()
    assert [json.loads(body)["event"] for _, _, body in receiver.got] == ["alert.opened", "alert.escalated"]


def test_what_is_refused_is_tried_again_later_and_later_and_given_up_in_the_end(
    sender: AlertSender, receiver: Receiver, clock: Clock
) -> None:
    observe(sender, LEAK)
    receiver.answers = [500] * (ATTEMPTS + 5)
    waits: list[timedelta] = []
    for attempt in range(ATTEMPTS):
        began = clock.now
        while sender.send_due() == SendReport():
            clock.now += timedelta(seconds=5 if attempt < 4 else 60)
        waits.append(clock.now - began)
    assert waits[:4] == [timedelta(seconds=s) for s in (0, 10, 20, 40)]
    assert max(waits) == timedelta(hours=1)
    clock.now += timedelta(days=1)
    assert sender.send_due() == SendReport()
    assert len(receiver.got) == ATTEMPTS
    assert len({headers["Medley-Delivery"] for _, headers, _ in receiver.got}) == 1


def test_a_delivery_that_failed_once_arrives_the_next_time(
    sender: AlertSender, receiver: Receiver, clock: Clock
) -> None:
    observe(sender, LEAK)
    receiver.answers = [503]
    assert sender.send_due() == SendReport(0, 1)
    assert sender.alerts.pending() == {"ops": (1, "HTTP 503")}
    clock.now += timedelta(seconds=10)
    assert sender.send_due() == SendReport(1, 0)
    assert sender.alerts.pending() == {}


def test_a_redirect_is_not_followed(sender: AlertSender, receiver: Receiver) -> None:
    observe(sender, LEAK)
    receiver.answers = [302]
    assert sender.send_due() == SendReport(0, 1)
    assert [path for path, _, _ in receiver.got] == ["/hook?team=a"]


def test_a_missing_secret_sends_nothing_and_says_which(
    sender: AlertSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET")
    observe(sender, LEAK)
    assert sender.send_due() == SendReport(0, 1)
    assert "env:HOOK_SECRET" in sender.alerts.pending()["ops"][1]
    assert receiver.got == []


def test_two_senders_deliver_once(sender: AlertSender, receiver: Receiver, clock: Clock) -> None:
    for number in range(30):
        observe(sender, Alert(AlertKind.UNMET, f"fleet {number}", Severity.WARNING, "some"))
    threads = [threading.Thread(target=AlertSender(sender.alerts, clock).send_due) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receiver.got) == len({headers["Medley-Delivery"] for _, headers, _ in receiver.got}) == 30


def test_a_webhook_gets_the_kinds_that_it_asks_for(sender: AlertSender, receiver: Receiver) -> None:
    hooks = PostgresWebhooks(sender.alerts.database)
    hooks.put(Webhook("ops", receiver.url, "env:HOOK_SECRET", (AlertKind.UNMET,), internal=True), NOW)
    observe(sender, LEAK, Alert(AlertKind.UNMET, "fleet f", Severity.WARNING, "some"))
    sender.send_due()
    assert [json.loads(body)["alert"]["kind"] for _, _, body in receiver.got] == ["demand.unmet"]


def test_nothing_is_sent_into_ones_own_network_unless_it_is_allowed(receiver: Receiver) -> None:
    for url in (receiver.url, "https://a:b@x/", "ftp://x/", "https:///x", "https://x/#y", "https://x/\r\nHost: y"):
        with pytest.raises(ValueError, match="a webhook's URL"):
            Endpoint(url)
    for host in ("127.0.0.1", "localhost", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[fd00::1]"):
        with pytest.raises(NotSentError, match="which nothing is sent to"):
            post(Endpoint(f"https://{host}:{receiver.server_port}/"), b"{}", {})
    for host in ("169.254.169.254", "[fe80::1]", "0.0.0.0", "[fd00:ec2::254]", "100.100.100.200"):  # noqa: S104
        with pytest.raises(NotSentError, match="which nothing is sent to"):
            post(Endpoint(f"http://{host}/", internal=True), b"{}", {})
    assert receiver.got == []


def test_nobody_there_is_told_and_a_certificate_is_verified(receiver: Receiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NotSentError, match="ConnectionRefusedError"):
        post(Endpoint(f"http://127.0.0.1:{port}/", internal=True), b"{}", {})
    with pytest.raises(NotSentError, match="SSL"):
        post(Endpoint(f"https://127.0.0.1:{receiver.server_port}/", internal=True), b"{}", {})


def test_a_receiver_that_never_comes_to_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.alerts.endpoint.TIMEOUT_S", 0.3)
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with server.accept()[0] as connection:
                connection.recv(4096)
                while not done.wait(0.02):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NotSentError, match="no answer within"):
            post(Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}/", internal=True), b"{}", {})
        done.set()
        thread.join()


def test_secrets_are_read_from_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    assert read_secret(f"file:{tmp_path}/secret").reveal() == SECRET
    assert read_secret("env:X", {"X": SECRET}).reveal() == SECRET
    for source in ("env:X", f"file:{tmp_path}/none"):
        with pytest.raises(NoSecretError, match=r"env:X|cannot be read"):
            read_secret(source, {"X": "short"})
    for bad in (SECRET, "env:", "file:relative", "file:/a\nb"):
        with pytest.raises(ValueError, match="where it is"):
            check_source(bad)


def test_the_watch_sees_budgets_and_leaks_and_sends_what_it_sees(
    sender: AlertSender, receiver: Receiver, database: Database, clock: Clock
) -> None:
    intents, instance = PostgresIntents(database), driven(database, EventKind.PROVISION)
    node = intents.open_create(instance.id, 0, "aws/x", "aws", 2.0, new_secret(), NOW, NOW - timedelta(hours=2))
    PostgresBudgets(database).put(Scope.FLEET, "f", Budget(usd_per_hour=1), NOW)
    intents.leaked("nobody-knows", "aws", NOW - timedelta(hours=1), None, NOW)
    assert AlertWatch(database, clock).step() == SendReport(2, 0)
    assert {(a.kind, a.subject, a.severity) for a in sender.alerts.recent(9)} == {
        ("budget.hour", "fleet f", "critical"),
        ("leak", "cloud aws", "critical"),
    }
    for name in (node, "nobody-knows"):
        intents.terminated(name, NOW)
    clock.now += CALM
    assert AlertWatch(database, clock).step() == SendReport(2, 0)
    assert sender.alerts.recent(9, open_only=True) == ()


def test_the_commands_add_list_watch_and_remove(
    receiver: Receiver, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["alerts", *arguments, "--database-url", database_url])
        return f"{done.exit_code} {done.output}"

    add = ("webhook", "add", "ops", receiver.url, "--secret", "env:HOOK_SECRET")
    assert "1 medley: error: a webhook's URL begins with https://" in run(*add)
    assert run(*add, "--internal").startswith("0 ")
    assert "did you mean 'leak'" in run(*add, "--internal", "--kind", "leaks")
    assert "env:HOOK_SECRET" in run("webhook", "list")
    assert SECRET not in run("webhook", "list", "-o", "json")
    assert "0 0 sent" in run("watch", "--once")
    assert "No alert is open" in run("list")
    assert "HTTP 204" in run("webhook", "test", "ops")
    receiver.answers = [503]
    assert "did not take it: HTTP 503" in run("webhook", "test", "ops")
    assert "is no name of a webhook" in run("webhook", "add", "my hook", *add[3:])
    assert run("webhook", "remove", "ops").startswith("0 ")
    assert "webhook 'ops' is not stored" in run("webhook", "remove", "ops")
    done = CliRunner().invoke(app, ["audit", "--subject", "ops", "--database-url", database_url]).output
    kinds = [word for word in done.split() if word.startswith("webhook.")]
    assert kinds == ["webhook.made", "webhook.tried", "webhook.tried", "webhook.removed"]
