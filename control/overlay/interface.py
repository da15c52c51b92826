"""The control plane's end of the overlay: a WireGuard device of this machine.

Nodes call it; it calls nobody, and passes nothing on from node to node. What listens at this machine's address in the
overlay is reached by nodes, and gateways on this machine reach them.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

from control.overlay.identity import OverlayIdentity
from control.overlay.place import DEVICE, MTU

_TUN = Path("/dev/net/tun")


class OverlayError(ValueError):
    """This machine is not in the overlay; the message says why, and what to do."""


class OverlayInterface:
    """Thread-safe. The device outlives the process: gateways go on over it."""

    def __init__(self, identity: OverlayIdentity, port: int) -> None:
        """`port`: UDP, at which nodes call."""
        self.identity = identity
        self._port = port
        self._turn = threading.Lock()
        self._is_up = False
        self._peers: frozenset[str] | None = None

    def up(self) -> None:
        """Make the device, unless it is there. Raises OverlayError."""
        with self._turn:
            if self._is_up:
                return
            if missing := lacking():
                raise OverlayError(f"`network.overlay: wireguard` needs {', and '.join(missing)} on this machine")
            owner = subprocess.run(("wg", "show", DEVICE, "public-key"), capture_output=True, text=True, check=False)
            if owner.returncode == 0 and owner.stdout.strip() not in ("(none)", self.identity.hub.public_key):
                raise OverlayError(
                    f"device {DEVICE} is another control plane's: end that one, or run this one elsewhere"
                )
            if owner.returncode:
                self._make()
            # Of a control plane that was there before, the device has its nodes as peers: they stay for now.
            key = self.identity.hub.key.reveal()
            _run("wg", "set", DEVICE, "private-key", "/dev/stdin", "listen-port", str(self._port), given=key)
            address = f"{self.identity.hub.address}/{self.identity.network.prefixlen}"
            _run("ip", "address", "replace", address, "dev", DEVICE)
            _run("ip", "link", "set", DEVICE, "mtu", str(MTU), "up")
            self._is_up, self._peers = True, None

    def admit(self, names: Iterable[str]) -> None:
        """Let these nodes in and no others, where the device is up. Raises OverlayError."""
        wanted = frozenset(names)
        with self._turn:
            if self._is_up and wanted != self._peers:
                _run("wg", "syncconf", DEVICE, "/dev/stdin", given=self._configuration(sorted(wanted)))
                self._peers = wanted

    def _make(self) -> None:
        """In the kernel, else by WireGuard's program."""
        made = subprocess.run(("ip", "link", "add", DEVICE, "type", "wireguard"), capture_output=True, check=False)
        if made.returncode:
            _run("wireguard-go", DEVICE)

    def _configuration(self, names: Iterable[str]) -> str:
        hub = self.identity.hub
        lines = ["[Interface]", f"PrivateKey = {hub.key.reveal()}", f"ListenPort = {self._port}"]
        for name in names:
            node = self.identity.node(name)
            lines += ["[Peer]", f"PublicKey = {node.public_key}", f"AllowedIPs = {node.address}/128"]
        return "\n".join((*lines, ""))


def lacking() -> tuple[str, ...]:
    """Return what this machine lacks for an overlay, each as people call it."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root")
    for program, package in (("ip", "iproute2"), ("wg", "wireguard-tools")):
        if shutil.which(program) is None:
            missing.append(f"the program {program} (package {package})")
    if not Path("/sys/module/wireguard").exists() and (shutil.which("wireguard-go") is None or not _TUN.exists()):
        missing.append(f"WireGuard in the kernel (`modprobe wireguard`), or the program wireguard-go and {_TUN}")
    return tuple(missing)


def _run(*command: str, given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OverlayError(f"`{' '.join(command)}`: {(done.stderr or done.stdout).strip()[-300:]}")
