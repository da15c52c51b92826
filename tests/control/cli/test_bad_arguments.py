"""What people type wrong is told in a line that helps, whatever the command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.cli.main import app
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.projects import PostgresProjects
from tests.control.lifecycle.worlds import START
from tests.control.reconcile.reconciled import spec


@pytest.fixture
def database_option(database_url: str) -> tuple[str, str]:
    return "--database-url", database_url


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fleets", "mode", "chatt", "auto"), "the nearest is 'chat' (`medley fleets list`)"),
        (("alerts", "webhook", "test", "ops"), "webhook 'ops' is not stored"),
        (("budgets", "set", "--fleet", "chatt", "--usd-per-hour", "5"), "the nearest is 'chat'"),
        (("token", "create", "x", "--project", "defualt"), "the nearest is 'default' (`medley projects list`)"),
        (("demand", "forecast", "chat", "x"), "is not overridden"),
        (("token", "create", "x", "--project", "../x"), "is no name of a project"),
        (("db", "backup", "/nonexistent/file"), "/nonexistent/file cannot be written"),
        *(((*command, "--limit", "9" * 20), "is not in the range") for command in (("events",), ("plans", "list"))),
    ],
)
def test_it_says_what_is_wrong(
    database: Database, database_option: tuple[str, str], arguments: tuple[str, ...], words: str
) -> None:
    PostgresProjects(database).ensure("default", START)
    PostgresFleets(database).create("chat", "spec", START)
    done = CliRunner().invoke(app, [*arguments, *database_option])
    assert done.exit_code != 0
    assert words in done.output
    assert "unexpected" not in done.output


def test_nothing_is_shown_with_a_word(database_option: tuple[str, str]) -> None:
    assert "no such event is recorded" in CliRunner().invoke(app, ["audit", *database_option]).output
    assert "no instance" in CliRunner().invoke(app, ["events", *database_option]).output


def test_a_fleet_that_is_applied_again_stays_in_its_project(
    database: Database, database_option: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    (tmp_path / "fleet.yaml").write_text(spec())
    assert CliRunner().invoke(app, ["projects", "create", "search", *database_option]).exit_code == 0
    for more in (("--project", "search"), ()):
        done = CliRunner().invoke(app, ["apply", "-f", str(tmp_path / "fleet.yaml"), *more, *database_option])
        assert done.exit_code == 0, done.output
    assert PostgresFleets(database).load("chat").project == "search"
