"""`medley up` as a user runs it: a process, what it prints, and its end."""

import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.chaos.victims import of_home
from tests.e2e.conftest import environment

MEDLEY = str(Path(sysconfig.get_path("scripts")) / "medley")
READY = re.compile(r"ready after \S+ s: (\S+)/v1 .*key (medley_\w+)")


@dataclass
class Up:
    """Serves the fleet of `spec`, which may be written first."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Beside that of every `medley`."""
    lines: list[str] = field(default_factory=list)
    url: str = ""
    key: str = ""

    @property
    def spec(self) -> Path:
        return self.home / "spec.yaml"

    def start(self, timeout_s: float) -> "Up":
        """Until it says that it is ready."""
        self.lines, found = [], threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, MEDLEY, "up", "-f", str(self.spec), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(self.home) | self.environment,
        )

        def read() -> None:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.lines.append(line)
                if (match := READY.search(line)) is not None:
                    self.url, self.key = match.groups()
                    found.set()
            found.set()

        threading.Thread(target=read, daemon=True).start()
        assert found.wait(timeout_s), self.said
        assert self._process.poll() is None, self.said
        return self

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def end(self) -> int:
        """As Ctrl-C does; its exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(300)

    def kill_control_plane(self) -> None:
        """It and its database, at once; nodes and gateway are left alone."""
        self._process.kill()
        self._process.wait()
        for process in of_home(str(self.home / "postgres")):
            with suppress(psutil.NoSuchProcess):  # sessions of a server end with it
                process.kill()
        give_up = time.monotonic() + 120
        while of_home(str(self.home / "postgres")) and time.monotonic() < give_up:
            time.sleep(0.05)

    def clear(self) -> None:
        """For a test that failed: end what is left by its directory."""
        if self._process.poll() is None:
            self._process.kill()
        for process in of_home(str(self.home)):
            try:
                process.kill()
            except psutil.Error:
                continue
