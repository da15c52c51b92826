"""Nodes as a cloud sees them: what is asked of it, and what it says exists."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from control.access.secret import Secret
from control.overlay.place import OverlayPlace
from templates_lib.values.offer import Market

_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_TAG_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_TAG_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A machine to rent and what it shall run. The name is its identity: a second request of it is the same node.

    Names and tags are of the form that all clouds take (GCP's labels are the narrowest); ValueError otherwise.
    """

    name: str
    region: str
    zone: str
    """Inside the cloud; equal to `region` where the cloud names none."""
    instance_type: str
    market: Market
    tags: Mapping[str, str]
    command: tuple[str, ...]
    """Command that runs on it from its start, with its arguments. It ends with the node, and the node with it."""
    disk_gib: int = 0
    """Size of its disk, where it is made with the machine; 0: the adapter's own."""
    disk_usd_per_hour: float = 0.0
    """What that disk costs beside the node's offer: clouds that are simulated bill it."""
    least_driver: int = 0
    """Major release of NVIDIA's driver that its command needs, where a set-up can look at it; 0: any, or none."""
    engines: frozenset[str] = frozenset()
    """Engines that its executors are to run: what they need beside the agent's own packages is installed."""
    overlay: OverlayPlace | None = None
    """Place in an overlay network that it joins before its command begins."""
    published_ports: tuple[int, ...] = ()
    """Ports that its cloud is to publish: it is reached at them from everywhere, and by no private address."""
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """Environment too, but neither stored nor shown by an adapter."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no node name: up to 63 small letters, digits and hyphens")
        for key, value in self.tags.items():
            if not (_TAG_KEY.fullmatch(key) and _TAG_VALUE.fullmatch(value)):
                raise ValueError(f"{key}={value!r} is no tag: up to 63 small letters, digits, hyphens and underscores")


class CloudNodeState(StrEnum):
    QUEUED = "queued"
    """Its launch waits for its turn: nothing exists yet, and nothing is billed."""
    STARTING = "starting"
    RUNNING = "running"
    BROKEN = "broken"
    """The node costs money and cannot work any more: its command has ended, or the vendor stopped it."""
    TERMINATING = "terminating"
    """The node is ending; it is still listed, perhaps still billed."""


@dataclass(frozen=True, slots=True)
class CloudNode:
    """A node that exists, according to its cloud."""

    name: str
    provider_id: str
    state: CloudNodeState
    tags: Mapping[str, str]
