"""All machines of one owner that SkyPilot works for, as the clouds last told of them."""

import itertools
import threading
from collections.abc import Mapping
from datetime import datetime

from control.cloud.errors import UnauthorisedError
from control.cloud.own_fault import own_fault
from control.cloud.skypilot.failure import cloud_error, is_credential_failure
from control.cloud.skypilot.messages import (
    Call,
    CallFailed,
    Check,
    Checked,
    ClusterRecord,
    Clusters,
    Down,
    LaunchCluster,
    Machine,
    Machines,
    Refresh,
    Reply,
    SweepMachines,
)
from control.cloud.skypilot.process import SdkProcess
from control.cloud.skypilot.settings import SkyPilotSettings


class SkyPilotFleet:
    """Nodes of all SkyPilot's clouds, shared by their adapters. Thread-safe."""

    def __init__(self, process: SdkProcess, settings: SkyPilotSettings) -> None:
        self.settings = settings
        self.home = process.home
        self._process = process
        self._turn = threading.Lock()
        self._checking = threading.Lock()
        self._usable: set[str] = set()
        """Clouds whose credentials have done so far."""
        self._known: dict[str, ClusterRecord] = {}
        self._stale: dict[str, str] = {}
        self._looked_at: datetime | None = None
        self._asked_at: datetime | None = None
        """When clouds were last asked after all clusters."""
        self._swept_at: dict[str, datetime] = {}
        self._unknown: dict[str, dict[str, Machine]] = {}
        """Cloud → name → machine that SkyPilot had no record of."""
        self._changed: dict[str, int] = {}
        """Names that we have changed since, and how often in all we had then."""
        self._changes = itertools.count(1)

    def ask(self, call: Call) -> Reply:
        return self._process.call(call, self.settings.query_s)

    def change(self, name: str, call: LaunchCluster | Down | Refresh, timeout_s: float) -> Reply:
        self._changed[name] = next(self._changes)
        try:
            return self._process.call(call, timeout_s)
        finally:
            self._changed[name] = next(self._changes)

    def check(self, cloud: str) -> None:
        """Raises UnauthorisedError, with SkyPilot's reason, unless it finds credentials for the cloud that work, and
        OwnFaultError where this machine keeps them from it. Those that did are not asked about again until `doubt`."""
        with self._checking:
            if cloud in self._usable:
                return
            reply = self.ask(Check((cloud,)))
            if isinstance(reply, CallFailed):
                raise cloud_error(cloud, reply)
            if not isinstance(reply, Checked):
                raise TypeError(f"SkyPilot's answer to a check is no {type(reply).__name__}")
            if reason := reply.reasons[cloud]:
                raise own_fault(cloud, reason) or UnauthorisedError(f"{cloud}: {reason}")
            self._usable.add(cloud)

    def doubt(self, cloud: str) -> None:
        """A call has failed for want of credentials."""
        self._usable.discard(cloud)

    def clusters(self, cloud: str, now: datetime) -> list[ClusterRecord]:
        """List the clusters of the cloud. Those that it could not be asked about are listed as last known; raises
        UnauthorisedError when the cause is missing credentials."""
        with self._turn:
            self._look(cloud, now)
            of_cloud = [cluster for cluster in self._known.values() if cluster.cloud == cloud]
            for cluster in of_cloud:
                if is_credential_failure(self._stale.get(cluster.name, "")):
                    raise UnauthorisedError(f"{cloud}: {self._stale[cluster.name]}")
            return of_cloud

    def unknown(self, cloud: str) -> Mapping[str, Machine]:
        """Return machines of the last `clusters` that SkyPilot had no record of, by node name."""
        return self._unknown.get(cloud, {})

    def forget(self, cloud: str, name: str) -> None:
        """Remove an ended node from the machines that SkyPilot has no record of."""
        with self._turn:
            self._unknown.get(cloud, {}).pop(name, None)

    def _look(self, cloud: str, now: datetime) -> None:
        """Ask SkyPilot, one caller at a time: those that wait find the answer. What has become of our own changes is on
        its records already."""
        sweep_s = self.settings.sweep_s
        is_due = sweep_s is not None and _due(self._swept_at.get(cloud), now, sweep_s)
        swept = self._sweep(cloud) if is_due else None
        # What clouds could not be asked is soon asked again: a credential that was renewed stops nobody for long.
        asks_clouds = _due(self._asked_at, now, self.settings.fresh_s if self._stale else self.settings.asked_s)
        everything = asks_clouds or swept is not None or _due(self._looked_at, now, self.settings.fresh_s)
        changed = dict(self._changed)
        if everything or changed:
            self._refresh(None if everything else tuple(sorted(changed)), asks_clouds)
        for name, change in changed.items():
            if self._changed.get(name) == change:
                del self._changed[name]
        self._looked_at = now if everything else self._looked_at
        self._asked_at = now if asks_clouds else self._asked_at
        if swept is not None:
            # What has come up since is on record, and not swept; what has gone since is ended in vain.
            self._unknown[cloud] = {machine.name: machine for machine in swept if machine.name not in self._known}
            self._swept_at[cloud] = now

    def _refresh(self, names: tuple[str, ...] | None, asks_clouds: bool) -> None:
        reply = self.ask(Refresh(names, asks_clouds))
        if isinstance(reply, CallFailed):
            raise cloud_error("skypilot", reply)
        if not isinstance(reply, Clusters):
            raise TypeError(f"SkyPilot's answer to a refresh is no {type(reply).__name__}")
        kept = {} if names is None else {name: known for name, known in self._known.items() if name not in names}
        self._known = {**kept, **{cluster.name: cluster for cluster in reply.clusters}}
        if asks_clouds:
            self._stale = dict(reply.stale)

    def _sweep(self, cloud: str) -> tuple[Machine, ...]:
        reply = self.ask(SweepMachines(cloud, self.home.owner, self.home.user_hash))
        if isinstance(reply, CallFailed):
            raise cloud_error(cloud, reply)
        if not isinstance(reply, Machines):
            raise TypeError(f"SkyPilot's answer to a sweep is no {type(reply).__name__}")
        return reply.machines


def _due(last: datetime | None, now: datetime, after_s: float) -> bool:
    """Tell whether `after_s` have passed, also when a clock was set back."""
    return last is None or not 0 <= (now - last).total_seconds() < after_s
