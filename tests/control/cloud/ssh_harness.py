"""Hosts of one's own, in tests: one real sshd on loopback, a port a host, each with a home of its own."""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from control.cloud.ssh.cloud import OwnMachines
from control.cloud.ssh.own_host import OwnHost
from tests.control.cloud.harness import STOCK, ProcessHarness
from tests.control.db.processes import wait_until
from tests.free_port import free_port

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
_CONFIG = """\
HostKey {root}/host_key
PidFile none
AuthorizedKeysFile {root}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
LogLevel ERROR
MaxStartups 100
"""


def can_serve_ssh() -> bool:
    return Path(SSHD).exists() and all(shutil.which(name) for name in ("ssh", "ssh-keygen"))


@dataclass(frozen=True)
class Sshd:
    hosts: tuple[OwnHost, ...]
    root: Path

    def home(self, host: OwnHost) -> Path:
        """Of the user that nodes run as there."""
        return self.root / host.name


def key(file: Path) -> str:
    """Make a key pair; its public part."""
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)), check=True)
    return " ".join(file.with_suffix(".pub").read_text().split()[:2])


@contextmanager
def sshd(root: Path, kinds: tuple[str, ...]) -> Iterator[Sshd]:
    """A host of each of `kinds` (instance types)."""
    root.mkdir(parents=True)
    Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
    host_key, own_key = key(root / "host_key"), root / "own_key"
    (root / "authorized_keys").write_text(f"{key(own_key)}\n")
    names, ports, blocks = [f"h{number}-{kind}" for number, kind in enumerate(kinds)], _ports(len(kinds)), ""
    for name, port in zip(names, ports, strict=True):
        (root / name).mkdir()
        blocks += f"Match LocalPort {port}\n  SetEnv HOME={root / name}\n"
    listen = "".join(f"ListenAddress 127.0.0.1:{port}\n" for port in ports)
    (root / "config").write_text(_CONFIG.format(root=root) + listen + blocks)
    server = subprocess.Popen((SSHD, "-D", "-e", "-f", str(root / "config")), stderr=(root / "log").open("wb"))
    try:
        wait_until(lambda: all(_answers(port) for port in ports))
        yield Sshd(
            tuple(
                OwnHost(name, "127.0.0.1", getpass.getuser(), host_key, kind, "here", port, own_key)
                for name, port, kind in zip(names, ports, kinds, strict=True)
            ),
            root,
        )
    finally:
        server.terminate()
        server.wait()


class SshHarness(ProcessHarness):
    def __init__(self, server: Sshd) -> None:
        self.server = server

    def cloud(self) -> OwnMachines:
        return OwnMachines(self.server.hosts)

    def pid(self, provider_id: str) -> int:
        return int(provider_id.partition("/")[2].partition("-")[0])


KINDS = ("small",) * STOCK + ("large",)


def stranger(host: OwnHost, root: Path) -> OwnHost:
    """The host as somebody believes it to be who has another host's key."""
    return replace(host, host_key=key(root / "another_key"))


def _ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False
