"""What the hub receives from node agents: the whole of what a node does, after every change and at every beat."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, Endpoint, MaybeName, PublicKey, Text
from agents.messages.to_gateway import Status

OUT_OF_MEMORY = "out of memory"
"""What a failure says that fewer KV blocks may mend, whoever passes it on."""


class SchedulerReport(Struct, frozen=True, array_like=True):
    endpoint: Endpoint
    """For gateways."""
    stages: Endpoint
    """For stage workers."""
    public_key: PublicKey
    status: Status | None = None
    """None until it has answered."""


class StageReport(Struct, frozen=True, array_like=True):
    running_s: Annotated[float, Meta(ge=0, le=1e10)]
    """Since its process was started: for as long as a machine may be up."""
    memory_mib: Count
    """Resident."""
    cpu_share: Annotated[float, Meta(ge=0, le=4096)]
    """Processors kept busy since the last report."""


class Interruption(Struct, frozen=True, array_like=True):
    """The node's cloud will take it."""

    in_s: Annotated[float, Meta(ge=0, le=86400)]
    """From when it was said."""
    reason: Text


class NodeReport(Struct, frozen=True, array_like=True, tag="node_report"):
    instance: MaybeName
    """Whose work it does; empty: none."""
    scheduler: SchedulerReport | None = None
    stage: StageReport | None = None
    failure: Text = ""
    """Why the instance cannot go on here."""
    metrics: Annotated[str, Meta(max_length=512)] = ""
    """URL of the node's metrics, in Prometheus' format."""
    interruption: Interruption | None = None


ToHub = NodeReport
