"""Ports of a node that its cloud publishes, where no other machine reaches the node by a private address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

_PORTS = "MEDLEY_NODE_PORTS"
"""Variable of the environment with the ports that the cloud was asked to publish."""
_FIRST_PROCESS = Path("/proc/1/environ")
_PUBLIC_ADDRESS, _PUBLIC_PORT = "RUNPOD_PUBLIC_IP", "RUNPOD_TCP_PORT_{}"
"""Variables that RunPod gives the first process of a pod (docs.runpod.io/pods/configuration/expose-ports)."""


@dataclass(frozen=True, slots=True)
class PublishedPort:
    number: int
    """Port on which the node listens."""
    endpoint: str
    """tcp://host:port by which everybody else reaches it."""


class PortBook:
    """The published ports of a node, one an executor, whatever life it is in."""

    def __init__(self, ports: Sequence[PublishedPort]) -> None:
        self._ports = ports
        self._number_of: dict[str, int] = {}

    def of(self, executor: str) -> PublishedPort | None:
        """Return the port of an executor; None for a node that publishes none. Raises ValueError where none is left."""
        if not self._ports:
            return None
        number = self._number_of.setdefault(executor, len(self._number_of))
        if number >= len(self._ports):
            raise ValueError(
                f"this node's cloud publishes {len(self._ports)} ports, and the instance has more executors that "
                "gateways reach: plan fewer models an instance, or another cloud"
            )
        return self._ports[number]


def published_ports(environment: Mapping[str, str], first_process: Path = _FIRST_PROCESS) -> tuple[PublishedPort, ...]:
    """Return the ports that were asked for (`_PORTS`); none for a node in a private network.

    Raises ValueError where the cloud has published none of them. `first_process`: the environment of process 1, in
    which the cloud says so where a login shell, such as SkyPilot's, has forgotten it.
    """
    asked = [int(each) for each in environment.get(_PORTS, "").split()]
    if not asked:
        return ()
    said = {**_read(first_process), **environment}
    address = said.get(_PUBLIC_ADDRESS, "")
    outside = {port: said.get(_PUBLIC_PORT.format(port), "") for port in asked}
    known = {port: number for port, number in outside.items() if number.isdecimal()}
    if not address or not known:
        raise ValueError(
            f"this node's cloud has published none of the ports {', '.join(map(str, asked))} "
            f"({_PUBLIC_ADDRESS} is {address or 'not set'}), so that no gateway reaches it: rent in a data centre that "
            "gives pods public addresses"
        )
    host = f"[{address}]" if ip_address(address).version == 6 else address
    return tuple(PublishedPort(port, f"tcp://{host}:{number}") for port, number in known.items())


def _read(path: Path) -> dict[str, str]:
    """Read the environment of a process; empty where it may not be read."""
    try:
        entries = path.read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)
