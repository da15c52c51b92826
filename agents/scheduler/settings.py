"""Settings of an instance's scheduler."""

from dataclasses import dataclass, field

from agents.channels.settings import ChannelSettings
from templates_lib.values.speculation import Speculation


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    max_waiting: int = 2048
    """Requests that wait for KV blocks or a place; more are refused as overloaded, so that they go elsewhere."""
    link_tries: int = 3
    """Connections of a link between two instances that may fail in a row, before what was to go over it fails."""
    pair_idle_s: float = 600.0
    """Two instances that have had nothing to hand off for as long part."""
    network: str = ""
    """The private network that this instance's nodes are in; empty: nobody said."""
    prefix_cache: bool = True
    """Prompts begin with the KV blocks of those before them that began alike, where all stages can. Blocks that are
    kept for it count as free, so that it costs nothing but its bookkeeping."""
    speculation: Speculation | None = None
    """How answers are drafted, where all stages verify drafts; None: not at all."""
    channel: ChannelSettings = field(default_factory=ChannelSettings)
