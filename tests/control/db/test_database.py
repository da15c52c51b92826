"""Opening a database: where it is looked for, and what is said when it cannot be used."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from control.db.database import Database, open_database
from control.db.errors import (
    DatabaseError,
    DatabaseUnavailableError,
    DatabaseUrlError,
    NewerRevisionError,
    OldRevisionError,
)
from control.db.location import locate, redacted
from control.db.revision import REVISIONS
from tests.control.db.processes import ROOT, end_input, line, start

SECRET = "hunter2"  # noqa: S105


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        yield listener.getsockname()[1]


def test_what_is_given_counts_before_the_environment(tmp_path: Path) -> None:
    environ = {"MEDLEY_DATABASE_URL": "postgres://u@env/d", "MEDLEY_HOME": "/env"}
    url = locate("postgresql://u@given/d", tmp_path, environ).url
    assert url is not None
    assert (url.host, url.drivername) == ("given", "postgresql+psycopg")
    assert locate(None, tmp_path, environ).data_dir == tmp_path
    url = locate(None, None, environ).url
    assert url is not None
    assert url.host == "env"
    assert locate(None, None, {"MEDLEY_HOME": "/env"}).data_dir == Path("/env/postgres")
    assert locate(None, None, {"XDG_DATA_HOME": "/xdg"}).data_dir == Path("/xdg/medley/postgres")
    assert locate(None, None, {}).data_dir == Path("~/.local/share/medley/postgres").expanduser()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        (f"mysql://u:{SECRET}@h/d", "needs PostgreSQL.*'mysql'"),
        (f"postgresql//u:{SECRET}@h", "looks like postgresql://"),
        (f"postgresql://u:{SECRET}@h:port/d", "looks like postgresql://"),
    ],
)
def test_an_unusable_url_is_refused_without_being_repeated(url: str, complaint: str) -> None:
    with pytest.raises(DatabaseUrlError, match=complaint) as caught, open_database(url):
        pass
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_database_that_is_down_is_named_without_its_password(closed_port: int) -> None:
    url = f"postgresql://me:{SECRET}@127.0.0.1:{closed_port}/d?sslpassword={SECRET}"
    named = rf"postgresql://me:\*\*\*@127.0.0.1:{closed_port}/d "
    with pytest.raises(DatabaseUnavailableError, match=named) as caught, open_database(url):
        pass
    assert "efused" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_no_secret_shows_in_a_database(database_url: str) -> None:
    host = database_url.partition("host=")[2]
    name = database_url.partition("@/")[2].partition("?")[0]
    with open_database(f"postgresql://postgres:{SECRET}@/{name}?host={host}&sslpassword={SECRET}") as database:
        for shown in (repr(database), database.name, redacted(database.engine.url)):
            assert SECRET not in shown
        with pytest.raises(Exception, match="no_such_table") as caught, database.transaction() as connection:
            connection.execute(text("INSERT INTO no_such_table VALUES (:value)"), {"value": SECRET})
        assert SECRET not in str(caught.value)


def test_a_server_that_goes_away_is_a_database_that_does_not_answer(database: Database) -> None:
    with pytest.raises(DatabaseUnavailableError, match="does not answer"), database.transaction() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


def test_a_foreign_server_without_tables_is_migrated_only_when_asked(empty_database_url: str) -> None:
    complaint = "no Medley tables: run `medley db upgrade`"
    with pytest.raises(OldRevisionError, match=complaint), open_database(empty_database_url):
        pass
    with open_database(empty_database_url, upgrade=True):
        pass
    with open_database(empty_database_url):
        pass


@pytest.mark.parametrize("upgrade", [False, True])
def test_tables_of_a_newer_release_are_left_alone(database_url: str, upgrade: bool) -> None:
    with open_database(database_url) as database, database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with (
        pytest.raises(NewerRevisionError, match=r"9999.*newer Medley"),
        open_database(database_url, upgrade=upgrade),
    ):
        pass


def test_tables_of_an_older_release_ask_for_an_upgrade(database_url: str) -> None:
    with open_database(database_url) as database, database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    complaint = f"at revision 0001, this release needs {REVISIONS[-1]}: run `medley db upgrade`"
    with pytest.raises(OldRevisionError, match=complaint), open_database(database_url):
        pass


def test_the_embedded_database_makes_its_tables_once_and_then_opens_without_alembic(short_tmp: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom control.db.database import open_database\n"
        "with open_database(data_dir=Path(sys.argv[1])): print('alembic' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(short_tmp / "first-run")]
    runs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert runs == ["True\n", "False\n"]


def test_commands_that_make_the_tables_at_once_take_turns(empty_database_url: str) -> None:
    code = (
        "import sys\nfrom control.db.database import open_database\n"
        "import control.db.migrate\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "with open_database(sys.argv[1], upgrade=True): pass"
    )
    commands = [start(code, empty_database_url) for _ in range(3)]
    assert [line(command) for command in commands] == ["ready"] * 3
    for command in commands:
        assert command.stdin is not None
        print(file=command.stdin, flush=True)
    for command in commands:
        end_input(command)


def test_an_interrupt_in_mid_command_stays_an_interrupt_and_the_database_answers_on(database: Database) -> None:
    def cut_off() -> None:
        with database.transaction() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.pgconn.send_query(b"SELECT 1")  # under way: its connection takes no ROLLBACK
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    assert database.read_column(text("SELECT 2")) == [2]


def test_every_error_can_be_caught_as_one() -> None:
    assert issubclass(NewerRevisionError, DatabaseError)
