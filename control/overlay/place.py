"""Place of a node in an overlay network, as its set-up takes it."""

from dataclasses import dataclass

DEVICE = "medley0"
MTU = 1380
"""Bytes: what is left of a packet of 1460, which is GCP's, behind WireGuard's header over IPv6."""
KEY_VARIABLE = "MEDLEY_OVERLAY_KEY"
"""Variable among a node's secrets with its private key."""
ADDRESS_VARIABLE = "MEDLEY_OVERLAY_ADDRESS"
"""Variable of a node's environment with its address in the overlay, at which its agent listens for gateways."""


@dataclass(frozen=True, slots=True)
class OverlayPlace:
    """Its private key is among the node's secrets."""

    address: str
    """IPv6."""
    hub: str
    """IPv6 address of the control plane's machine there."""
    hub_key: str
    """Public key of that machine."""
    endpoint: str
    """host:port, UDP, by which it is reached from outside."""
