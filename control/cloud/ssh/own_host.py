"""A machine of one's own, and how it is reached."""

import re
from dataclasses import dataclass
from pathlib import Path

_ADDRESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253})|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
_USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_HOST_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]{40,4096}={0,3}")


@dataclass(frozen=True, slots=True)
class OwnHost:
    """Machine of one's own. Raises ValueError for what could not be an address, user or key, or would be an option to a
    program."""

    name: str
    """Unique among the hosts of a fleet."""
    address: str
    user: str
    host_key: str
    """Public key of the host, type and key, as /etc/ssh/ssh_host_ed25519_key.pub has it. No other is accepted."""
    instance_type: str
    zone: str
    port: int = 22
    key_file: Path | None = None
    """The private key that we identify ourselves with; None: what an SSH agent holds."""
    python: str = ""
    """Python of the host's environment that Medley's agent is installed in; empty: as nodes are started elsewhere."""

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError(f"host {self.name!r}: {self.address!r} is no address")
        if not _USER.fullmatch(self.user):
            raise ValueError(f"host {self.name!r}: {self.user!r} is no user")
        if not _HOST_KEY.fullmatch(self.host_key):
            raise ValueError(
                f"host {self.name!r}: host_key is no public key; it looks like 'ssh-ed25519 AAAA…' "
                f"(`ssh-keyscan {self.address}` asks for it: compare it with the one on the host)"
            )
        if not 0 < self.port < 65536:
            raise ValueError(f"host {self.name!r}: {self.port} is no port")
