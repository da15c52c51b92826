"""How a node gets into the overlay: what its set-up and its agent are told."""

from dataclasses import dataclass

from control.overlay.identity import OverlayIdentity
from control.overlay.place import OverlayPlace

OVERLAY_PORT = 51820
"""UDP; WireGuard's own."""


@dataclass(frozen=True, slots=True)
class OverlayInvitation:
    identity: OverlayIdentity
    address: str
    """Host name or address by which nodes reach the control plane from outside."""
    port: int = OVERLAY_PORT

    @property
    def hub_host(self) -> str:
        """Address of the control plane inside the overlay, as endpoints have it."""
        return f"[{self.identity.hub.address}]"

    def place(self, name: str) -> OverlayPlace:
        """Return the place of a node in the overlay."""
        node, hub = self.identity.node(name), self.identity.hub
        host = f"[{self.address}]" if ":" in self.address else self.address
        return OverlayPlace(str(node.address), str(hub.address), hub.public_key, f"{host}:{self.port}")
