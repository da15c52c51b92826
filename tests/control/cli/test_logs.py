"""`medley logs`: what nodes wrote, as far as it is here, and as it comes."""

from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.access.secret import new_secret
from control.cli import logs
from control.cli.main import app
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.fleet.node_logs import lines_after
from control.lifecycle.event import Event, EventKind
from templates_lib.values.instance import Instance
from tests.control.api.worlds import OFFER, template
from tests.control.lifecycle.worlds import START

ID = "i0000000000aa"


@pytest.fixture
def nodes(database: Database) -> list[str]:
    """Names of an instance's two nodes, one of this machine and one of AWS."""
    made, instances = template(), PostgresInstances(database)
    wanted = Instance(ID, made.id, "local/here", OFFER.market, "requested", (), fleet="chat")
    instances.request(wanted, made, "plan-chat-1", START)
    instances.apply(ID, Event(EventKind.PROVISION, "a test"), START)
    return [
        PostgresIntents(database).open_create(
            ID, number, f"{cloud}/here/x/on-demand", cloud, 1.0, new_secret(), START + timedelta(minutes=5), START
        )
        for number, cloud in enumerate(("local", "aws"))
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    made = tmp_path / "control" / "local-cloud" / "logs"
    made.mkdir(parents=True)
    return made


def test_the_end_is_shown_and_what_is_elsewhere_is_said(folder: Path, nodes: list[str], database_url: str) -> None:
    (folder / f"{nodes[0]}.log").write_bytes(b"a first line\nready \x1b[2J\xff\n")
    done = CliRunner().invoke(app, ["logs", ID[:6], "--bytes", "15", "--database-url", database_url])
    assert done.exit_code == 0
    assert done.stdout == "0  ready  [2J\ufffd\n"  # no half line, and nothing that a terminal obeys
    assert "aws" in done.stderr


def test_lines_are_followed_until_the_instance_is_gone(
    folder: Path, nodes: list[str], database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = folder / f"{nodes[0]}.log"
    log.write_text("before\n")
    instances, coming = PostgresInstances(database), ["one\nhal", "f\ntwo\n"]

    def time_passes(_: float) -> None:
        if coming:
            with log.open("a") as file:
                file.write(coming.pop(0))
        else:
            instances.apply(ID, Event(EventKind.RELEASE, "a test"), START)
            for name in nodes:
                PostgresNodes(database).lost(name, "a test", START)
            instances.apply(ID, Event(EventKind.NODES_GONE, "a test"), START)

    monkeypatch.setattr(logs.time, "sleep", time_passes)
    done = CliRunner().invoke(app, ["logs", ID, "-f", "--database-url", database_url])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["0  before", "0  one", "0  half", "0  two"]


def test_a_log_that_was_begun_anew_is_read_from_its_beginning(
    folder: Path, nodes: list[str], database: Database
) -> None:
    held = PostgresNodes(database).of_instance(ID)[0]
    home = folder.parent.parent.parent
    assert lines_after(home, held, 7) == ([], 7)
    (folder / f"{nodes[0]}.log").write_text("a\nb")
    assert lines_after(home, held, 0) == (["a"], 2)
    assert lines_after(home, held, 99) == (["a"], 2)
    assert lines_after(home, held, 2) == ([], 2)
