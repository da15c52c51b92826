"""Messages over the pipe between an adapter and the process that holds SkyPilot's SDK: one JSON document a line."""

from typing import Any

import msgspec


class Check(msgspec.Struct, frozen=True, tag=True):
    """Asks which of `clouds` have credentials that work."""

    clouds: tuple[str, ...]


class LaunchCluster(msgspec.Struct, frozen=True, tag=True):
    """Asks for the cluster `name`, of one node. It exists, is on its way, or is launched; the reply comes when it is
    up."""

    name: str
    cloud: str
    region: str
    """Empty: any."""
    zone: str
    """Empty: any of the region."""
    instance_type: str
    spot: bool
    labels: dict[str, str]
    image: str
    """Empty: SkyPilot's own for the cloud."""
    disk_gib: int
    """0: SkyPilot's own size."""
    set_up: str
    run: str
    files: dict[str, str]
    """Path on the node → path here."""
    ports: tuple[int, ...] = ()
    """Ports of the node that its cloud publishes."""


class Refresh(msgspec.Struct, frozen=True, tag=True):
    """Ask after all clusters, or after `names` only."""

    names: tuple[str, ...] | None = None
    asks_clouds: bool = True
    """False: what SkyPilot has on record, which costs nodes nothing. To ask, it runs Ray's command line on each."""


class Down(msgspec.Struct, frozen=True, tag=True):
    name: str


class Tail(msgspec.Struct, frozen=True, tag=True):
    """The last lines that SkyPilot printed while it provisioned the node, and that the node's command has printed."""

    name: str
    lines: int
    of_command: bool = False
    """The latter only."""


class MachineRow(msgspec.Struct, frozen=True):
    """A machine for SkyPilot's catalogue, in one zone."""

    cloud: str
    region: str
    zone: str
    """The region again: all its zones."""
    instance_type: str
    gpu: str
    gpu_count: int
    vcpus: float | None
    gpu_memory_mib: int
    host_memory_gib: float
    usd_per_hour: float | None
    """None: not sold on demand."""
    spot_usd_per_hour: float | None


class WriteCatalogue(msgspec.Struct, frozen=True, tag=True):
    rows: tuple[MachineRow, ...]


class SweepMachines(msgspec.Struct, frozen=True, tag=True):
    """Ask a cloud itself for every machine of an owner: also for those that SkyPilot has no record of."""

    cloud: str
    owner: str
    user_hash: str
    """Hash that ends the names SkyPilot gives this owner's machines, where a cloud has no labels."""


class Machine(msgspec.Struct, frozen=True):
    """A machine as its cloud lists it."""

    name: str
    """The node's."""
    provider_id: str
    place: str
    """Place in which the cloud finds the machine."""
    instance_type: str
    stopped: bool
    labels: dict[str, str]


class EndMachine(msgspec.Struct, frozen=True, tag=True):
    cloud: str
    machine: Machine


Call = Check | LaunchCluster | Refresh | Down | Tail | WriteCatalogue | SweepMachines | EndMachine


class ClusterRecord(msgspec.Struct, frozen=True, tag=True):
    """A record of SkyPilot's."""

    name: str
    cloud: str
    region: str
    zone: str
    instance_type: str
    spot: bool
    status: str
    """SkyPilot's: UP, INIT, STOPPED, ..."""
    ever_up: bool
    launching: bool
    """True while a launch of it is under way."""
    provider_id: str
    """Empty while its launch waits for its turn: nothing has been asked of the cloud."""
    labels: dict[str, str]


class Other(msgspec.Struct, frozen=True, tag=True):
    """Another machine has the name."""

    text: str


class Checked(msgspec.Struct, frozen=True, tag=True):
    """Reasons by cloud that was asked for: empty when it can be used, else why not."""

    reasons: dict[str, str]


class Clusters(msgspec.Struct, frozen=True, tag=True):
    clusters: tuple[ClusterRecord, ...]
    stale: dict[str, str]
    """Cluster → why its cloud could not be asked; it is listed as it was last known."""


class Machines(msgspec.Struct, frozen=True, tag=True):
    machines: tuple[Machine, ...]


class Text(msgspec.Struct, frozen=True, tag=True):
    text: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The call is done, or was before."""


class CallFailed(msgspec.Struct, frozen=True, tag=True):
    kind: str
    """Name of the exception."""
    text: str
    log: str = ""
    """Output of SkyPilot meanwhile: only there it names the vendor's code."""
    known: tuple[str, ...] = ()
    """Instance types that its catalogue has for the cloud, where the one asked for is not among them."""
    cause: str = ""
    """Exception in which SkyPilot's own code broke off the creation of a machine, its type and words."""


Reply = ClusterRecord | Other | Checked | Clusters | Machines | Text | Ended | CallFailed


class Numbered(msgspec.Struct, frozen=True):
    number: int
    call: Call


class NumberedReply(msgspec.Struct, frozen=True):
    number: int
    reply: Reply


def line(message: Any) -> bytes:
    return msgspec.json.encode(message) + b"\n"
