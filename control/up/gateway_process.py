"""The gateway of `medley up`: a process of its own, which the next run finds again."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from control.cloud.local.members import identified, is_leader
from control.cloud.local.record import Leader
from control.up.home import UpHome, write_private

_START_S = 60.0
_END_S = 5.0
"""Time for answers under way when everything ends."""


class GatewayError(ValueError):
    """The gateway does not start; the message has the last line of its log."""


@dataclass(frozen=True, slots=True)
class GatewayRecord:
    leader: Leader
    url: str
    host: str
    port: int
    """Host and port as they were requested; port 0: any."""


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    url: str
    leader: Leader
    host: str
    port: int

    @property
    def lives(self) -> bool:
        return is_leader(self.leader, "")

    def stop(self) -> None:
        """End the process; answers under way get `_END_S`."""
        with suppress(psutil.Error):
            process = psutil.Process(self.leader.pid)
            if self.lives:
                process.send_signal(signal.SIGTERM)
                with suppress(psutil.TimeoutExpired):
                    process.wait(_END_S)
                    return
                process.kill()
                process.wait(_END_S)


def running_gateway(home: UpHome) -> GatewayProcess | None:
    """The gateway of this or an earlier run; None: none runs."""
    with suppress(OSError, msgspec.MsgspecError):
        record = msgspec.json.decode(home.gateway_record.read_bytes(), type=GatewayRecord)
        found = GatewayProcess(record.url, record.leader, record.host, record.port)
        return found if found.lives else None
    return None


def ensure_gateway(home: UpHome, host: str, port: int) -> GatewayProcess:
    """The gateway that runs already, or a new one. Raises GatewayError."""
    found = running_gateway(home)
    if found is not None:
        if (found.host, found.port) == (host, port):
            return found
        found.stop()
    home.keys("gateway")
    return _started(home, host, port)


def _started(home: UpHome, host: str, port: int) -> GatewayProcess:
    command = (sys.executable, "-m", "control.gateway", "--host", host, "--port", str(port))
    files = ("--table", str(home.table), "--key", str(home.gateway_key))
    output = home.root / "gateway.out"
    with output.open("wb") as out, home.gateway_log.open("ab") as log:
        os.fchmod(log.fileno(), 0o600)
        # A session of its own: Ctrl-C is for `medley up`, which ends the gateway when its turn comes.
        process = subprocess.Popen(
            (*command, *files), stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True
        )
    try:
        line = _first_line(output, process)
    except BaseException:  # nobody would find it again
        process.kill()
        process.wait()
        raise
    leader = identified(process.pid)
    if line is None or leader is None:
        process.kill()
        process.wait()
        last = home.gateway_log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        raise GatewayError(f"the gateway does not start: {last[0]} (its log: {home.gateway_log})")
    url = json.loads(line)["url"]
    write_private(home.gateway_record, msgspec.json.encode(GatewayRecord(leader, url, host, port)))
    return GatewayProcess(url, leader, host, port)


def _first_line(output: Path, process: subprocess.Popen[bytes]) -> str | None:
    give_up_s = time.monotonic() + _START_S
    while time.monotonic() < give_up_s:
        text = output.read_text()
        if "\n" in text:
            return text.partition("\n")[0]
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    return None
