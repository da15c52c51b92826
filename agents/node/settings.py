"""Settings that a node agent is started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.channels.address import Address
from agents.channels.settings import ChannelSettings
from agents.node.metadata import ADDRESS
from agents.node.published import PublishedPort


@dataclass(frozen=True, slots=True)
class NodeSettings:
    home: Path
    """A directory of the node's own: its key, and the files that its processes are started with."""
    hub: Address
    interface: str = "127.0.0.1"
    """This node's address on the private network."""
    network: str = ""
    """Name of that network, by which others are known to be in it, too; empty: nobody said."""
    overlay: str = ""
    """This node's address in an overlay network that gateways are in; empty: they reach it by `interface`."""
    ports: tuple[PublishedPort, ...] = ()
    """At which gateways reach it, where it is in no network; none: by its address, at any port."""
    device: str = "cpu"
    """Kind of the devices that engines run on, as torch calls it."""
    threads: int = 1
    """Of an engine on a CPU."""
    pace: float = 1.0
    """Share of the time that an engine may compute, where nobody else enforces it."""
    slab_mib: int = 0
    """Shared memory for tensors of executors of components, where it runs any; 0: what its work asks for."""
    pythons: Mapping[str, Path] = field(default_factory=dict)
    """Of the environments of engines that have one of their own; an engine that is not named is not there."""
    cloud: str = ""
    """Whose machine this is, as offers call it; empty: it gives no notice before it takes it."""
    metadata: str = ADDRESS
    """Where that cloud tells its machines about themselves."""
    report_s: float = 1.0
    grace_s: float = 3.0
    """For a process that is asked to end, before it is killed."""
    channel: ChannelSettings = field(default_factory=lambda: ChannelSettings(lost_after_s=15.0))
    """A node may compute on the only processor it has a share of while it is asked for a sign of life."""
