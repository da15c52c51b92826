"""The embedded server lives exactly as long as somebody uses it, whatever becomes of its users."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

import psycopg
import pytest

from control.db.cluster import PostgresCluster, ServerAddress
from control.db.embedded import embedded_server
from control.db.errors import EmbeddedServerError
from tests.control.db.processes import end_input, line, lives, start, wait_until

USE = """
import sys
from pathlib import Path
from control.db.embedded import embedded_server
with embedded_server(Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def home(short_tmp: Path) -> Path:
    """One directory for all tests, since a new one costs a second; who damages it mends it."""
    return short_tmp / "embedded"


def connect(server: ServerAddress) -> psycopg.Connection:
    return psycopg.connect(host=str(server.socket_dir), user="postgres", dbname="postgres", autocommit=True)


def test_the_server_stops_with_its_last_user_and_keeps_its_data(home: Path) -> None:
    with embedded_server(home) as first:
        with embedded_server(home) as second:
            assert second == first
            with connect(second) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        assert lives(first.pid)
    assert not (home / "cluster" / "postmaster.pid").exists()
    wait_until(lambda: not lives(first.pid))
    with embedded_server(home) as again, connect(again) as connection:
        assert again.pid != first.pid
        assert connection.execute("SELECT seven FROM kept").fetchall() == [(7,)]


def test_another_command_may_leave_before_or_after(home: Path) -> None:
    with embedded_server(home) as server:
        early, late = start(USE, str(home)), start(USE, str(home))
        assert int(line(early)) == int(line(late)) == server.pid
        end_input(early)
        connect(server).close()
    connect(server).close()
    end_input(late)
    wait_until(lambda: not lives(server.pid))


def test_a_killed_command_leaves_a_server_that_the_next_one_uses_and_stops(home: Path) -> None:
    owner = start(USE, str(home))
    pid = int(line(owner))
    owner.kill()
    owner.communicate()
    assert lives(pid)
    with embedded_server(home) as server:
        assert server.pid == pid
        connect(server).close()
    wait_until(lambda: not lives(pid))


def test_a_server_that_was_killed_is_started_again_with_all_that_was_committed(home: Path) -> None:
    with embedded_server(home) as server:
        with connect(server) as connection:
            connection.execute("CREATE TABLE committed AS SELECT 7 AS seven")
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not lives(server.pid))
        assert (home / "cluster" / "postmaster.pid").exists()
        with embedded_server(home) as again, connect(again) as connection:
            assert connection.execute("SELECT seven FROM committed").fetchall() == [(7,)]
    wait_until(lambda: not lives(again.pid))


def test_a_pid_file_from_before_a_power_cut_does_not_fool_anybody(home: Path) -> None:
    pid_file = home / "cluster" / "postmaster.pid"
    with embedded_server(home):
        _, _, rest = pid_file.read_text().partition("\n")
    pid_file.write_text(f"{os.getpid()}\n{rest}")  # the pid has another owner now
    pid_file.chmod(0o600)
    shutil.chown(pid_file, (home / "cluster").stat().st_uid, (home / "cluster").stat().st_gid)
    with embedded_server(home) as server:
        assert server.pid != os.getpid()
        connect(server).close()


def test_ctrl_c_during_the_start_leaves_no_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_it = PostgresCluster._start

    def start_and_be_interrupted(cluster: PostgresCluster) -> None:
        start_it(cluster)
        raise KeyboardInterrupt

    monkeypatch.setattr(PostgresCluster, "_start", start_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt), embedded_server(home):
        pass
    assert not (home / "cluster" / "postmaster.pid").exists()


def test_commands_that_start_at_once_share_one_server(home: Path) -> None:
    users = [start(USE, str(home)) for _ in range(4)]
    pid, *others = (int(line(user)) for user in users)
    assert others == [pid] * 3
    for user in users:
        end_input(user)
    wait_until(lambda: not lives(pid))


def test_a_forked_child_does_not_keep_the_server(home: Path) -> None:
    read_end, write_end = os.pipe()
    with embedded_server(home) as server:
        child = os.fork()
        if child == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
    stopped = not (home / "cluster" / "postmaster.pid").exists()
    os.write(write_end, b"!")
    os.waitpid(child, 0)
    assert stopped
    wait_until(lambda: not lives(server.pid))


def test_a_start_that_was_killed_half_way_is_made_good(home: Path) -> None:
    shutil.move(home / "cluster", home / "cluster.new")
    (home / "cluster.new" / "PG_VERSION").unlink()
    (home / "cluster.new" / "half-made").touch()
    with embedded_server(home) as server, connect(server) as connection:
        assert connection.execute("SHOW data_directory").fetchall() == [(str(home / "cluster"),)]
    assert not (home / "cluster.new").exists()
    assert not (home / "cluster" / "half-made").exists(), "it was made anew"


def test_a_path_too_long_for_a_socket_works(home: Path) -> None:
    deep = home.joinpath(*["a-directory-with-a-long-name"] * 4)
    deep.mkdir(parents=True)
    shutil.move(home / "cluster", deep / "cluster")
    with embedded_server(deep) as server:
        assert server.socket_dir != deep / "cluster"
        assert server.socket_dir.stat().st_mode & 0o077 == 0
        connect(server).close()
    server.socket_dir.rmdir()
    shutil.move(deep / "cluster", home / "cluster")


def test_a_directory_that_cannot_be_used_is_named(short_tmp: Path, home: Path) -> None:
    file = short_tmp / "a-file"
    file.touch()
    with pytest.raises(EmbeddedServerError, match=r"a-file/x.*MEDLEY_HOME"), embedded_server(file / "x"):
        pass
    version = home / "cluster" / "PG_VERSION"
    version.write_text("15\n")
    with pytest.raises(EmbeddedServerError, match="PostgreSQL 15"), embedded_server(home):
        pass
    version.write_text("18\n")


def test_a_server_that_does_not_start_says_why_in_one_line(home: Path) -> None:
    control = home / "cluster" / "global" / "pg_control"
    control.rename(aside := control.with_suffix(".aside"))
    with pytest.raises(EmbeddedServerError, match="pg_control") as caught, embedded_server(home):
        pass
    assert "\n" not in str(caught.value)
    aside.rename(control)


@pytest.mark.needs("root")  # to become another user; for an ordinary user all other tests are this one
def test_an_ordinary_user_runs_it_as_itself(short_tmp: Path) -> None:
    nobody = 65534
    short_tmp.chmod(0o755)
    home = short_tmp / "nobody"
    home.mkdir()
    os.chown(home, nobody, nobody)
    # Forked, since another user may not be allowed to read the Python that runs us.
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(nobody)
        os.setuid(nobody)
        status = 1
        with contextlib.suppress(BaseException), embedded_server(home) as server:
            connect(server).close()
            status = 0 if Path(f"/proc/{server.pid}").stat().st_uid == nobody else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not (home / "cluster" / "postmaster.pid").exists()
