"""Ways between the parties of a fleet: who opens connections to whom, at which ports. Firewalls have to let them in."""

from dataclasses import dataclass
from enum import StrEnum

HUB_PORT, REGISTRY_PORT, DEMAND_PORT = 7501, 7502, 7503


class Party(StrEnum):
    GATEWAY = "gateway"
    CONTROL_PLANE = "control plane"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Way:
    source: Party
    target: Party
    first_port: int
    last_port: int
    """TCP, both included."""
    what: str

    @property
    def ports(self) -> str:
        """Ports as people write them: `22`, `1024-65535`."""
        return f"{self.first_port}" if self.first_port == self.last_port else f"{self.first_port}-{self.last_port}"


WAYS = (
    Way(Party.NODE, Party.CONTROL_PLANE, HUB_PORT, HUB_PORT, "agents report, and are told what to run"),
    Way(Party.NODE, Party.CONTROL_PLANE, REGISTRY_PORT, REGISTRY_PORT, "new nodes register"),
    Way(Party.GATEWAY, Party.CONTROL_PLANE, DEMAND_PORT, DEMAND_PORT, "gateways report demand"),
    Way(Party.GATEWAY, Party.NODE, 1024, 65535, "requests to schedulers, which listen on any port"),
    Way(Party.NODE, Party.NODE, 1024, 65535, "activations, KV caches, and what schedulers say to each other"),
    Way(Party.CONTROL_PLANE, Party.NODE, 22, 22, "SkyPilot sets nodes up, and reads their logs"),
)
"""Ports of the control plane are those that `medley reconcile` has unless it is told others."""
