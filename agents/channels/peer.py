"""The far end of a connection, as a listener knows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """One connection; a peer that reconnects is another one, with the same name."""

    connection: bytes
    """ZeroMQ routing id."""
    name: str
    """Name that its key stands for: authenticated, never what it claims."""
    role: str
    protocol: int
