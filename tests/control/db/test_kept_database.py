"""The embedded server dies under processes that stay: one of them starts it again, until it is told to end."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from control.db import server_watch
from control.db.cluster import PostgresCluster
from control.db.database import Database, open_database
from control.db.embedded import embedded_server
from control.db.errors import DatabaseUnavailableError, EmbeddedServerError
from control.db.events import PostgresEvents
from control.db.kept_database import open_kept_database
from tests.control.db.processes import line, lives, start, wait_until

STAY = """
import sys
from control.db.kept_database import open_kept_database
with open_kept_database(None, lambda what: print(what, flush=True)) as database:
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One for all tests, since a new server costs a second."""
    monkeypatch.delenv("MEDLEY_DATABASE_URL", raising=False)
    monkeypatch.setenv("MEDLEY_HOME", str(short_tmp / "kept"))
    return short_tmp / "kept" / "postgres"


def postmaster(home: Path) -> int:
    return PostgresCluster.of(home).address().pid


def kill(home: Path) -> int:
    pid = postmaster(home)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    return pid


def answers(database: Database) -> bool:
    try:
        with database.transaction() as connection:
            connection.execute(text("SELECT 1"))
    except DatabaseUnavailableError:
        return False
    return True


def test_a_server_that_is_killed_is_started_again_and_that_is_on_record(home: Path) -> None:
    said: list[str] = []
    with open_kept_database(None, said.append) as database:
        with database.transaction() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS seven"))
        before = kill(home)
        wait_until(lambda: bool(PostgresEvents(database).page(1)) if said else False)
        with database.transaction() as connection:
            assert connection.execute(text("SELECT seven FROM kept")).scalars().all() == [7]
        (event,) = PostgresEvents(database).page(9, kind="database.restarted")
        assert "started again" in event.event.text
        assert [event.event.text] == said
        after = postmaster(home)
        assert after != before
    wait_until(lambda: not lives(after))


def test_one_of_many_starts_it_and_another_does_when_that_one_is_gone(home: Path) -> None:
    first = start(STAY)
    assert line(first) == "open"
    said: list[str] = []
    with open_kept_database(None, said.append) as database:
        kill(home)
        assert "started again" in line(first)
        wait_until(lambda: answers(database))
        assert said == []
        first.kill()
        first.communicate()
        kill(home)
        wait_until(lambda: bool(said))
        assert answers(database)
    wait_until(lambda: not (home / "cluster" / "postmaster.pid").exists())


def test_whoever_ends_has_it_stopped_and_not_started(home: Path) -> None:
    """However soon before the end it dies."""
    for _ in range(3):
        with open_kept_database(None, lambda _: None) as database:
            assert answers(database)
            pid = kill(home)
        assert not lives(pid)
        assert not PostgresCluster.of(home).is_up()
    assert [thread.name for thread in threading.enumerate() if thread.name == "database watch"] == []


def test_data_that_is_gone_is_told_and_not_made_anew(home: Path) -> None:
    said: list[str] = []
    with open_kept_database(None, said.append):
        (home / "cluster").rename(aside := home / "aside")
        os.kill(int((aside / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)
        wait_until(lambda: bool(said))
        assert "is gone" in said[0]
        assert "medley db restore" in said[0]
        with pytest.raises(EmbeddedServerError, match="is gone"), open_database():
            pass
        assert not (home / "cluster").exists()
        aside.rename(home / "cluster")
        wait_until(lambda: len(said) > 1)
        assert "started again" in said[1]
    assert len(said) == 2, "what is wrong is said once"


def test_a_home_that_was_removed_is_told_and_stays_removed(short_tmp: Path) -> None:
    home, said = short_tmp / "removed", list[str]()
    with embedded_server(home), server_watch.kept_up(home, said.append, said.append):
        kill(home)
        shutil.rmtree(home)
        wait_until(lambda: any("is gone" in each for each in said))
        assert not home.exists()


def test_what_cannot_be_started_is_said_once_and_tried_on(home: Path) -> None:
    said: list[str] = []
    control = home / "cluster" / "global" / "pg_control"
    with open_kept_database(None, said.append):
        control.rename(aside := control.with_suffix(".aside"))
        kill(home)
        wait_until(lambda: bool(said))
        aside.rename(control)
        wait_until(lambda: len(said) > 1)
    assert "pg_control" in said[0]
    assert "started again" in said[1]
    assert len(said) == 2
