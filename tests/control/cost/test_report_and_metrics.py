"""The report, `medley cost`, and the metrics, on a ledger with every kind of money in it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from control.access.secret import new_secret
from control.cli.cost import moment
from control.cli.main import app
from control.cost.metrics import CostCollector
from control.cost.report import cost_report
from control.db.database import Database
from control.db.intents import PostgresIntents
from control.db.ledger import PostgresLedger
from control.ledger.cost_line import LEAKED, By
from control.ledger.period import Period
from control.lifecycle.event import EventKind
from tests.control.lifecycle.worlds import driven

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def ledger(database: Database) -> PostgresLedger:
    """Three nodes at $2/h: held since the day before yesterday, gone this morning, abandoned and then found."""
    return with_nodes(database, NOW)


def with_nodes(database: Database, now: datetime) -> PostgresLedger:
    intents = PostgresIntents(database)
    for begin in (now - 48 * HOUR, now - 4 * HOUR, now - 3 * HOUR):
        instance = driven(database, EventKind.PROVISION)
        name = intents.open_create(instance.id, 0, "aws/x", "aws", 2.0, new_secret(), now, begin)
        if begin == now - 4 * HOUR:
            intents.terminated(name, now - HOUR)
        if begin == now - 3 * HOUR:
            intents.abandoned(name, now - 2 * HOUR)
            intents.leaked(name, "aws", begin, None, now - HOUR)
    return PostgresLedger(database)


def test_a_report_says_what_was_spent_and_where_it_goes(ledger: PostgresLedger) -> None:
    report = cost_report(ledger, Period(NOW - 24 * HOUR, NOW), By.MODEL, NOW)
    assert report.usd == 24 * 2 + 3 * 2 + 1 * 2 + 2 * 2
    assert {line.name: (line.usd, line.usd_per_hour, line.nodes) for line in report.lines} == {
        "smollm2-135m": (56, 2, 1),
        LEAKED: (4, 2, 1),
    }
    assert (report.usd_per_hour, report.nodes) == (4, 2)
    assert (report.leaked_usd, report.leaked_nodes, report.unpriced_node_hours) == (4, 1, 0)
    assert report.today_usd == 12 * 2 + 6 + 2 + 4
    assert report.month_usd == 96 + 6 + 2 + 4
    assert report.month_forecast_usd == report.month_usd + 4 * 9.5 * 24


def test_the_metrics_say_the_same(ledger: PostgresLedger) -> None:
    found = samples(ledger)
    labels = {"fleet": "f", "project": "default", "cloud": "aws", "market": "on-demand"}
    assert found["medley_cost_usd_per_hour", tuple(sorted(labels.items()))] == 2
    assert found["medley_cost_month_usd", tuple(sorted(labels.items()))] == 104
    assert found["medley_leaked_usd_total", (("cloud", "aws"),)] == 4
    assert found["medley_leaked_nodes", (("cloud", "aws"),)] == 1


def test_without_a_leak_the_metric_is_there_and_zero(database: Database) -> None:
    assert samples(PostgresLedger(database))["medley_leaked_usd_total", (("cloud", ""),)] == 0


def samples(ledger: PostgresLedger) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    registry.register(CostCollector(ledger, lambda: NOW))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_the_command_prints_tables_and_json(database: Database, database_url: str) -> None:
    with_nodes(database, datetime.now(UTC))
    table = CliRunner().invoke(app, ["cost", "--since", "50h", "--by", "cloud", "--database-url", database_url])
    assert table.exit_code == 0, table.output
    assert "aws" in table.output
    assert "108.00" in table.output
    assert "leaked: 4.00 $; 1 such nodes exist now" in table.output
    read = CliRunner().invoke(app, ["cost", "--since", "50h", "-o", "json", "--database-url", database_url])
    report = json.loads(read.output)
    assert (report["usd"], report["leaked_usd"], len(report["lines"])) == (108, 4, 2)


def test_times_are_read_and_what_is_none_is_told() -> None:
    assert moment("--since", "2d", NOW) == NOW - 48 * HOUR
    assert moment("--since", "2026-11-01", NOW) == datetime(2026, 11, 1, tzinfo=UTC)
    assert moment("--since", "2026-11-01T01:00+01:00", NOW) == datetime(2026, 11, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="--since 'yesterday' is no time"):
        moment("--since", "yesterday", NOW)
