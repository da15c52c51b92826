"""Limits and times of a channel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    max_message_bytes: int = 8 << 20
    """A prompt of 1 Mi tokens takes 5 MiB; libzmq drops the connection of whoever sends more."""
    queue_messages: int = 8192
    """Messages queued per peer and direction. Full means that the peer does not read: sending raises."""
    heartbeat_s: float = 1.0
    """The dialling end asks for a sign of life this often."""
    lost_after_s: float = 5.0
    """Silence after which a peer counts as dead: several heartbeats, and longer than one engine step."""
    reconnect_s: float = 0.05
    """First wait between two attempts to connect; it doubles up to `reconnect_max_s`."""
    reconnect_max_s: float = 2.0
    linger_s: float = 0.2
    """Seconds that closing waits for what is queued."""

    @property
    def lost_after_beats(self) -> float:
        """The same silence in heartbeats, by which each end counts it."""
        return self.lost_after_s / self.heartbeat_s
