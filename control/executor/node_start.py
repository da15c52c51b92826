"""Start of a new node: what it shall run, before it is known which node that is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from control.access.secret import Secret
from control.overlay.invitation import OverlayInvitation
from templates_lib.values.engines import DEFAULT_ENGINE

NODE_VARIABLE = "MEDLEY_NODE"
"""Variable of a node's environment with its name, by which it registers."""
NETWORK_VARIABLE = "MEDLEY_NODE_NETWORK"
"""Variable of a node's environment with the private network that it is in (`templates_lib.values.reach`)."""
PORTS_VARIABLE = "MEDLEY_NODE_PORTS"
"""Variable of a node's environment with the ports that its cloud publishes, of a node that is in no network."""
CLOUD_VARIABLE = "MEDLEY_CLOUD"
"""Variable of a node's environment with the cloud whose machine it is."""
TOKEN_VARIABLE = "MEDLEY_BOOTSTRAP_TOKEN"  # noqa: S105
"""Variable of a node's environment with the one-time token that it registers its key with."""


@dataclass(frozen=True, slots=True)
class NodeStart:
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment with the address to register at, and its public key; the executor adds the node's name and token."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """Secrets that go into its environment, too."""
    engines: frozenset[str] = frozenset({DEFAULT_ENGINE})
    """Engines that its agent has; of a node that is about to be rented, those that its instance runs."""
    least_driver: int = 0
    """Major release of NVIDIA's driver that its engines need; 0: they run on processors."""
    disk_gib: int = 0
    """Disk that it needs; 0: not known."""
    disk_usd_per_hour: float = 0.0
    """What that disk costs beside the node's offer."""
    overlay: OverlayInvitation | None = None
    """Invitation to the overlay network; None: it does not join one."""
