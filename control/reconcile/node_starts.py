"""Start of new nodes: what each runs, by where it is."""

import os
import sys
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from control.access.secret import Secret
from control.cloud.port import Cloud
from control.executor.node_start import NodeStart
from control.overlay.invitation import OverlayInvitation
from control.reconcile.daemon_home import DaemonHome
from templates_lib.models.hub_weights import ENDPOINT_VARIABLE, TOKEN_VARIABLE
from templates_lib.values.clouds import LOCAL, cloud_kind
from templates_lib.values.engines import engines_at, least_driver

_LOCAL = "127.0.0.1"
_REMOTE_HOME = ".medley/node"
"""Home of an agent on a machine of its own, below its user's home directory."""


def check_way_back(cloud: str, address: str) -> None:
    """Check the control plane's address. Raises ValueError where nodes rented at `cloud` would look for it on
    themselves: they would cost money until it is given up that they come."""
    try:
        is_loopback = ip_address(address).is_loopback
    except ValueError:
        is_loopback = address == "localhost"
    if is_loopback:
        raise ValueError(
            f"nodes at {cloud} would look for the control plane at {address}, which is themselves: start `medley "
            "reconcile` with --bind and with an --address by which they reach it"
        )


class NodeStarts(Mapping[str, NodeStart]):
    """Cloud → its start, of the clouds that there are adapters for by now."""

    def __init__(
        self,
        clouds: Mapping[str, Cloud],
        address: str,
        hub_port: int,
        registry_port: int,
        public_key: str,
        home: DaemonHome,
        overlay: OverlayInvitation | None = None,
    ) -> None:
        """`address`: by which nodes of other machines reach the control plane; `public_key`: by which they know it.
        `overlay`: that nodes of clouds which take one join, and find it over."""
        self._clouds = clouds
        self._address = address
        self._ports = hub_port, registry_port
        self._public_key = public_key
        self._home = home
        self._overlay = overlay
        home.nodes.mkdir(exist_ok=True, mode=0o700)

    def __getitem__(self, cloud: str) -> NodeStart:
        if cloud not in self._clouds:
            raise KeyError(cloud)
        local = cloud == LOCAL
        overlay = self._overlay if cloud_kind(cloud).takes_overlay else None
        address = self._address if overlay is None else overlay.hub_host
        host, python = (_LOCAL, sys.executable) if local else (address, "python3")
        where = (str(self._home.nodes),) if local else (_REMOTE_HOME, "--device", "cuda")
        hub, registry = (f"tcp://{host}:{port}" for port in self._ports)
        command = (python, "-m", "agents.node", "--registry", registry, "--hub", hub)
        given = (*command, f"--control-key={self._public_key}", "--home", *where)
        where_hub = {name: os.environ[name] for name in (ENDPOINT_VARIABLE,) if name in os.environ}
        secrets = {name: Secret(os.environ[name]) for name in (TOKEN_VARIABLE,) if name in os.environ}
        engines = engines_at(cloud)
        least = 0 if local else least_driver(engines)
        return NodeStart(given, where_hub, secrets, engines, least, overlay=overlay)

    def __iter__(self) -> Iterator[str]:
        return iter(self._clouds)

    def __len__(self) -> int:
        return len(self._clouds)
