"""Messages to the hub from node agents: the whole of what a node does, after every change and at every beat."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, Endpoint, MaybeName, Name, PublicKey, Text
from agents.messages.to_gateway import Status
from agents.messages.to_node import MAX_EXECUTORS
from templates_lib.values.placement import ONLY

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


class ExecutorReport(Struct, frozen=True, array_like=True):
    executor: Name
    scheduler: SchedulerReport | None = None
    stage: StageReport | None = None


MAX_GPUS = 64
"""Of one node."""


class GpuReport(Struct, frozen=True, array_like=True):
    """A GPU as the node's driver knows it."""

    name: Name
    memory_mib: Count


class NodeReport(Struct, frozen=True, array_like=True, tag="unit_report"):
    instance: MaybeName
    """Whose work it does; empty: none."""
    executors: Annotated[tuple[ExecutorReport, ...], Meta(max_length=MAX_EXECUTORS)] = ()
    failure: Text = ""
    """Why the instance cannot go on here."""
    metrics: Annotated[str, Meta(max_length=512)] = ""
    """URL of the node's metrics, in Prometheus' format."""
    interruption: Interruption | None = None
    gpus: Annotated[tuple[GpuReport, ...], Meta(max_length=MAX_GPUS)] = ()
    """All of the node; none: it has none, cannot tell, or is of the release before."""

    def of(self, executor: str) -> ExecutorReport:
        return next((each for each in self.executors if each.executor == executor), ExecutorReport(executor))

    @property
    def of_one(self) -> "ReportOfOne":
        """The same for a hub of protocol 1, which has given it one executor at most."""
        only = self.executors[0] if self.executors else ExecutorReport(ONLY)
        rest = (self.failure, self.metrics, self.interruption)
        return ReportOfOne(self.instance, only.scheduler, only.stage, *rest)


class ReportOfOne(Struct, frozen=True, array_like=True, tag="node_report"):
    """A report as protocol 1 has it."""

    instance: MaybeName
    scheduler: SchedulerReport | None = None
    stage: StageReport | None = None
    failure: Text = ""
    metrics: Annotated[str, Meta(max_length=512)] = ""
    interruption: Interruption | None = None

    @property
    def report(self) -> NodeReport:
        only = ExecutorReport(ONLY, self.scheduler, self.stage)
        return NodeReport(self.instance, (only,), self.failure, self.metrics, self.interruption)


ToHub = NodeReport | ReportOfOne
