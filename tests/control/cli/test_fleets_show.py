"""`medley fleets show`: one fleet, by itself and with a plan that is followed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from control.cli.main import app
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.lifecycle.fleet import FleetMode
from tests.control.lifecycle.worlds import START


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "home"))


def show(database_url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["fleets", "show", *arguments, "--database-url", database_url])


def test_a_fleet_is_shown_with_what_it_follows_and_what_waits(database: Database, database_url: str) -> None:
    fleets = PostgresFleets(database)
    fleets.create("chat", "name: chat\n# ours\n", START, mode=FleetMode.APPROVE)
    alone = show(database_url, "chat")
    assert alone.exit_code == 0, alone.output
    assert "follows no plan" in alone.stdout
    fleets.accept(fleets.target("chat"), "a" * 32, "cli:ann", "cheaper", START)
    fleets.propose(fleets.target("chat"), "b" * 32, START)
    shown = show(database_url, "chat").stdout
    assert "mode approve" in shown
    assert "2026-11-21 12:00:00" in shown
    assert "a" * 12 in shown
    assert "cli:ann" in shown
    assert "`medley approve chat`" in shown
    assert max(map(len, shown.splitlines())) <= 80
    told = json.loads(show(database_url, "chat", "-o", "json").stdout)
    assert (told["fleet"]["mode"], told["target"]["accepted"], told["instances"]) == ("approve", "a" * 32, [])
    assert show(database_url, "chat", "--spec").stdout == "name: chat\n# ours\n"


def test_a_fleet_that_is_not_there_is_an_error_with_the_nearest(database: Database, database_url: str) -> None:
    PostgresFleets(database).create("chat", "name: chat", START)
    failed = show(database_url, "chatt")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "'chat'" in failed.stderr
