"""The adapter of a cloud that SkyPilot works for."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.cloud.errors import CloudError, GiveUpError, RetryLaterError, UnauthorisedError
from control.cloud.node import CloudNode, CloudNodeState, NodeRequest
from control.cloud.skypilot.failure import cloud_error
from control.cloud.skypilot.fleet import SkyPilotFleet
from control.cloud.skypilot.labels import NODE_LABEL
from control.cloud.skypilot.log_failure import failure_in
from control.cloud.skypilot.market import ANYWHERE
from control.cloud.skypilot.messages import (
    CallFailed,
    ClusterRecord,
    Clusters,
    Down,
    Ended,
    EndMachine,
    LaunchCluster,
    Machine,
    Other,
    Refresh,
    Tail,
    Text,
)
from control.cloud.skypilot.set_up import SetUp
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market

_LOG_LINES = 60
_LOG_AGAIN = timedelta(seconds=10)
"""Between two looks at the log of a node: each goes there by ssh."""


@dataclass(frozen=True, slots=True)
class _LogRead:
    at: datetime
    failed_since: datetime | None = None
    """Since when its logs tell of a failure."""


class SkyPilotCloud:
    """`name` as SkyPilot and offers call it: aws, gcp, runpod, kubernetes. All adapters share one `fleet`."""

    def __init__(self, name: str, fleet: SkyPilotFleet, set_up: SetUp) -> None:
        self.name = name
        self._fleet = fleet
        self._set_up = set_up
        self._logs_read: dict[str, _LogRead] = {}
        """Looks at the logs of nodes for a failure, the last of each."""

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        """Returns when the node is up and has its set-up and command as a job of SkyPilot's: minutes."""
        del now
        if (machine := self._fleet.unknown(self.name).get(request.name)) is not None:
            return self._as_asked(machine, request)
        if request.market not in (Market.ON_DEMAND, Market.SPOT):
            raise GiveUpError(f"{self.name}: SkyPilot rents on demand or spot, and no {request.market} machine")
        self._fleet.check(self.name)
        sent = self._set_up.stage(request)
        launch = LaunchCluster(
            name=request.name,
            cloud=self.name,
            region="" if request.region == ANYWHERE else request.region,
            zone="" if request.zone == request.region else request.zone,
            instance_type=request.instance_type,
            spot=request.market is Market.SPOT,
            labels={**request.tags, NODE_LABEL: request.name},
            image=self._fleet.settings.images.get(self.name, ""),
            disk_gib=request.disk_gib,
            set_up=sent.set_up,
            run=sent.run,
            files=sent.files,
            ports=request.published_ports,
        )
        reply = self._fleet.change(request.name, launch, self._fleet.settings.launch_s)
        shutil.rmtree(sent.directory, ignore_errors=True)
        match reply:
            case ClusterRecord():
                self._set_up.forget(request.name)  # also what a launch was sent that nobody waited for
                return _node(reply)
            case Other():
                raise GiveUpError(f"{self.name}: {reply.text}")
            case CallFailed(known=known) if known:
                hint = nearest_name(request.instance_type, known)
                raise GiveUpError(f"{self.name}: unknown instance type {request.instance_type!r}; {hint}")
            case CallFailed():
                error = cloud_error(self.name, reply)
                if isinstance(error, UnauthorisedError):
                    self._fleet.doubt(self.name)
                raise self._nothing_left(request.name, error)
        raise TypeError(f"SkyPilot's answer to a launch is no {type(reply).__name__}")

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        clusters = self._fleet.clusters(self.name, now)
        nodes = [_node(cluster) for cluster in clusters]
        nodes += [_unknown(machine) for machine in self._fleet.unknown(self.name).values()]
        return tuple(sorted((n for n in nodes if tags.items() <= n.tags.items()), key=lambda node: node.name))

    def terminate(self, name: str, now: datetime) -> None:
        del now
        reply = self._fleet.change(name, Down(name), self._fleet.settings.query_s)
        machine = self._fleet.unknown(self.name).get(name)
        if machine is not None and isinstance(reply, Ended):
            reply = self._fleet.ask(EndMachine(self.name, machine))
        if isinstance(reply, CallFailed):
            error = cloud_error(self.name, reply)
            raise error if isinstance(error, RetryLaterError) else RetryLaterError(str(error), 30.0)
        self._fleet.forget(self.name, name)
        self._logs_read.pop(name, None)
        self._set_up.forget(name)

    def failure(self, name: str, now: datetime) -> str:
        last = self._logs_read.get(name, _LogRead(now - _LOG_AGAIN))
        if now - last.at < _LOG_AGAIN:
            return ""
        found = failure_in(self._tail(Tail(name, _LOG_LINES, of_command=True)))
        failed_since = None if found is None else last.failed_since or now
        self._logs_read[name] = _LogRead(now, failed_since)
        if found is None or failed_since is None or now - failed_since < found.patience:
            return ""
        return found.text

    def printed(self, name: str, lines: int) -> str:
        """See `PrintReader`."""
        return self._tail(Tail(name, lines, of_command=True))

    def log(self, name: str, lines: int) -> str:
        """The last lines of its provisioning, and then of what its set-up and command have printed."""
        return self._tail(Tail(name, lines))

    def _tail(self, tail: Tail) -> str:
        reply = self._fleet.ask(tail)
        if isinstance(reply, Text):
            return reply.text
        raise cloud_error(self.name, reply) if isinstance(reply, CallFailed) else TypeError(type(reply).__name__)

    def _as_asked(self, machine: Machine, request: NodeRequest) -> CloudNode:
        # RunPod tells its GPU and not the name that it is sold by: what cannot be compared is taken as it is.
        if self.name != "runpod" and machine.instance_type != request.instance_type:
            raise GiveUpError(f"{self.name}: {machine.name} exists and is a {machine.instance_type}")
        return _unknown(machine)

    def _nothing_left(self, name: str, error: CloudError) -> CloudError:
        """Return the error to raise once nothing of a failed launch is left: files, say, are copied to a machine that
        is up."""
        if isinstance(error, RetryLaterError):
            return error
        left = self._fleet.change(name, Refresh((name,)), self._fleet.settings.query_s)
        if left == Clusters((), {}):
            return error
        ended = self._fleet.change(name, Down(name), self._fleet.settings.query_s)
        if isinstance(ended, Ended):
            return error
        return RetryLaterError(f"{error}; and what was created could not be ended yet", 30.0)


def _node(cluster: ClusterRecord) -> CloudNode:
    return CloudNode(cluster.name, cluster.provider_id, _state(cluster), _tags(cluster.labels))


def _unknown(machine: Machine) -> CloudNode:
    """One that SkyPilot lost sight of, or that its database was restored without: it may well work."""
    state = CloudNodeState.BROKEN if machine.stopped else CloudNodeState.RUNNING
    return CloudNode(machine.name, machine.provider_id, state, _tags(machine.labels))


def _tags(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key != NODE_LABEL}


def _state(cluster: ClusterRecord) -> CloudNodeState:
    """A node that was up and that SkyPilot cannot reach any more is none of SkyPilot's to judge: its agent reports."""
    if cluster.launching and not cluster.ever_up:
        return CloudNodeState.STARTING if cluster.provider_id else CloudNodeState.QUEUED
    if cluster.status == "UP" or (cluster.status == "INIT" and cluster.ever_up):
        return CloudNodeState.RUNNING
    return CloudNodeState.BROKEN
