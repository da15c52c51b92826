"""Settings of an instance's scheduler."""

from dataclasses import dataclass, field

from agents.channels.settings import ChannelSettings


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    max_waiting: int = 2048
    """Requests that wait for KV blocks or a place; more are refused as overloaded, so that they go elsewhere."""
    channel: ChannelSettings = field(default_factory=ChannelSettings)
