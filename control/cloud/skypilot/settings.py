"""Settings of renting through SkyPilot."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SkyPilotSettings:
    images: Mapping[str, str] = field(default_factory=dict)
    """Cloud → image of its nodes: an AMI, a GCP image, `docker:IMAGE`. One that holds the agent's requirements starts
    minutes sooner. Without an entry, SkyPilot's own image."""
    launch_s: float = 1200.0
    """Seconds that a call waits for a node to be up: machine, SkyPilot's runtime, our files. It goes on after that."""
    query_s: float = 300.0
    """Seconds that a call waits for clouds to be asked, or for a node to be terminated."""
    fresh_s: float = 10.0
    """Age that our copy of SkyPilot's records may have. What we have changed ourselves is read again."""
    asked_s: float = 120.0
    """Seconds between two looks of ours at clouds and nodes themselves. SkyPilot's server takes one a minute by itself
    and puts it on record. Each has a node run `ray status`, which takes it 7 to 29 s of a processor."""
    sweep_s: float | None = 300.0
    """Seconds that a machine may exist which SkyPilot has no record of, until the clouds' own lists show it. None,
    where the credentials do not allow to list machines: such a machine is never found."""
