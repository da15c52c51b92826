"""SkyPilot's API server on this machine: found when it runs, started when it does not, stopped with all it started."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
import psutil

from control.cloud.errors import OwnFaultError, RetryLaterError
from control.cloud.skypilot.home import SkyPilotHome
from control.file_lock import turn

START_S = 180.0
"""Seconds to start; it takes 20 where nothing else runs."""
STARTS = 3
"""One after another, of a server that ends before it answers."""
_LOOK_S = 0.25
_GRACE_S = 5.0


class ServerRecord(msgspec.Struct, frozen=True):
    pid: Annotated[int, msgspec.Meta(ge=1)]
    started_at: float
    """Seconds since 1970, by this system's clock: with the pid, which process it is."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


@dataclass(frozen=True, slots=True)
class ApiServer:
    """SkyPilot's API server. Any number of control planes with the same home share one; it outlives them until somebody
    stops it."""

    home: SkyPilotHome

    def ensure(self) -> int:
        """The port on 127.0.0.1 of the server, which answers. Raises RetryLaterError, OwnFaultError."""
        if importlib.util.find_spec("sky") is None:
            raise OwnFaultError("SkyPilot is not installed on the control plane's machine: see docs/clouds.md")
        with self._turn():
            record = self._running()
            for _ in range(STARTS):
                record = record or self._start()
                if self._comes_up(record):
                    return record.port
                record = None
            raise OwnFaultError(
                f"SkyPilot's API server has ended {STARTS} times before it answered: see {self.home.server_log}"
            )

    def stop(self) -> None:
        """End it and every process that it has started. Launches under way are broken off: `create` takes them up."""
        with self._turn():
            if (record := self._running()) is not None:
                ours = [psutil.Process(record.pid)]
                with suppress(psutil.Error):
                    ours += ours[0].children(recursive=True)
                _end(ours)
            _end(list(self._strays()))
            self.home.server_record.unlink(missing_ok=True)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        try:
            self.home.create()
            with turn(self.home.lock):
                yield
        except OSError as error:
            raise OwnFaultError(f"SkyPilot's home {self.home.path} cannot be used: {error}") from error

    def _recorded(self) -> ServerRecord | None:
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self.home.server_record.read_bytes(), type=ServerRecord)
        return None

    def _running(self) -> ServerRecord | None:
        record = self._recorded()
        if record is None:
            return None
        try:
            process = psutil.Process(record.pid)
            alive = abs(process.create_time() - record.started_at) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return record if alive else None

    def _start(self) -> ServerRecord:
        _end(list(self._strays()))  # of a server that was killed: they hold its database
        port = _free_port()
        command = (sys.executable, "-u", "-m", "sky.server.server", "--host=127.0.0.1", f"--port={port}")
        environment = {**self.home.environment(port), "IS_SKYPILOT_SERVER": "true"}
        with os.fdopen(os.open(self.home.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home.path,
                env=environment,
                start_new_session=True,
            )
        record = ServerRecord(child.pid, psutil.Process(child.pid).create_time(), port)
        self.home.server_record.write_bytes(msgspec.json.encode(record))
        return record

    def _comes_up(self, record: ServerRecord) -> bool:
        """Wait until the server answers; False when it has ended. It opens its ports, one of which it reckons from
        ours, long after ours was found free, and whatever took one meanwhile ends it. Raises RetryLaterError for one
        that lives and does not answer."""
        deadline = time.monotonic() + START_S
        while not _answers(record.port):
            if self._running() is None:
                return False
            if time.monotonic() > deadline:
                text = f"SkyPilot's API server does not answer: see {self.home.server_log}"
                raise RetryLaterError(text, START_S)
            time.sleep(_LOOK_S)
        return True

    def _strays(self) -> Iterator[psutil.Process]:
        """Processes of a server in this home, whoever their parent is: by their environment, and, since executors write
        their titles over it, by the session that the recorded server began."""
        session = self._session()
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == session or self._has_mark(process):
                    yield process

    def _has_mark(self, process: psutil.Process) -> bool:
        environment = process.environ()
        return environment.get("SKY_RUNTIME_DIR") == str(self.home.path) and "IS_SKYPILOT_SERVER" in environment

    def _session(self) -> int | None:
        """Number of the server's session, which is nobody else's while a process of it lives; None: there is none, or
        another has the number."""
        record = self._recorded()
        if record is None:
            return None
        with suppress(psutil.Error):
            return record.pid if abs(psutil.Process(record.pid).create_time() - record.started_at) < 1 else None
        return record.pid


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5) as reply:
            return bool(json.load(reply).get("status"))
    except (OSError, ValueError):
        return False


def _end(processes: list[psutil.Process]) -> None:
    """Raises RetryLaterError when one does not die."""
    for stop in (psutil.Process.terminate, psutil.Process.kill):
        for process in processes:
            with suppress(psutil.Error):
                stop(process)
        give_up = time.monotonic() + _GRACE_S
        while (alive := [process for process in processes if _lives(process)]) and time.monotonic() < give_up:
            time.sleep(_LOOK_S)
        if not alive:
            return
    pids = ", ".join(str(process.pid) for process in alive)
    raise RetryLaterError(f"SkyPilot's API server does not end: processes {pids}", _GRACE_S)


def _lives(process: psutil.Process) -> bool:
    """Tell whether the process lives; one that has ended and was not collected does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE) and process.is_running()
    except psutil.Error:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
