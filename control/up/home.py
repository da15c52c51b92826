"""Files that `medley up` stores on disk, so that its next run finds it again, however this one ends."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from agents.messages.bounds import Port
from control.reconcile.daemon_home import DaemonHome


@dataclass(frozen=True, slots=True)
class ListenPorts:
    """Ports where nodes find the control plane, also the next one: a node may outlive it."""

    hub: Port
    registry: Port

    def __post_init__(self) -> None:
        if self.hub == self.registry:
            raise ValueError(f"one port, {self.hub}, for two")


@dataclass(frozen=True, slots=True)
class UpHome(DaemonHome):
    """The home of a control plane and of its gateway."""

    @classmethod
    def below(cls, home: Path, name: str = "up") -> Self:
        return super(UpHome, cls).below(home, name)

    @property
    def gateway_record(self) -> Path:
        return self.root / "gateway.json"

    @property
    def gateway_log(self) -> Path:
        return self.root / "gateway.log"

    @property
    def api_key(self) -> Path:
        """File of the token that `medley up` prints: only its hash is in the database."""
        return self.root / "api.key"

    @property
    def lock(self) -> Path:
        """File that a running `medley up` holds locked."""
        return self.root / "lock"

    def ports(self) -> ListenPorts:
        """The ports of the last run; free ones the first time, or when another process has taken one."""
        path = self.root / "ports.json"
        with suppress(OSError, msgspec.MsgspecError):
            ports = msgspec.json.decode(path.read_bytes(), type=ListenPorts)
            if _is_free(ports.hub) and _is_free(ports.registry):
                return ports
        ports = ListenPorts(*_free_ports())
        write_private(path, msgspec.json.encode(ports))
        return ports


def write_private(path: Path, content: bytes) -> None:
    """Replace a file that nobody else may read, in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
