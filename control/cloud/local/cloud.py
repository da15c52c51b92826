"""The local cloud's adapter."""

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from control.cloud.errors import GiveUpError, RetryLaterError, StockOutError
from control.cloud.local.confinement import Confinement, confine, release
from control.cloud.local.kind import LocalKind
from control.cloud.local.members import end, identified, is_leader, marked_leader, members
from control.cloud.local.record import NodeRecord, RecordStore
from control.cloud.local.start import node_environment, start
from control.cloud.node import CloudNode, CloudNodeState, NodeRequest
from templates_lib.values.nearest_name import nearest_name

GRACE_S = 2.0
"""Seconds between asking a node to end and killing it: agents have drained by then, and only close files."""
PATIENCE_S = 10.0
"""Seconds until what is killed is gone."""


class LocalCloud:
    """Nodes of `kinds` below the directory `home`. Any number of adapters, in any process, may share it."""

    name = "local"

    def __init__(self, home: Path, kinds: Iterable[LocalKind]) -> None:
        self._home = home.absolute()
        self._kinds = {kind.name: kind for kind in kinds}
        self._records = RecordStore(self._home)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        """Nodes that this process has started: it has to take note of their end, or they stay as zombies."""

    def offer(self, kinds: Iterable[LocalKind]) -> None:
        """Add kinds of nodes; where the name of one is there already, its new share counts for nodes from now on."""
        self._kinds = self._kinds | {kind.name: kind for kind in kinds}

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        del now
        with self._records.turn():
            existing = self._records.get(request.name)
            if existing is not None and (node := self._seen(existing)) is not None:
                return self._same(request, existing, node)
            kind = self._kind(request)
            program = shutil.which(request.command[0]) if request.command else None
            if program is None:
                raise GiveUpError(f"local: there is no program {' '.join(request.command[:1])!r} on this machine")
            confinement = confine(kind, request.name, str(self._home))
            record = NodeRecord(request.name, kind.name, request.zone, request.market, dict(request.tags), confinement)
            self._records.put(record)
            environment = node_environment(request, confinement, self._mark(request.name))
            log = self._home / "logs" / f"{request.name}.log"
            try:
                child = start((program, *request.command[1:]), environment, confinement, self._home, log)
            except OSError as error:
                self._seen(record)
                raise RetryLaterError(f"local: no process can be started: {error}", GRACE_S) from error
            self._children[request.name] = child
            record = replace(record, leader=identified(child.pid))
            self._records.put(record)
            return self._node(record, CloudNodeState.RUNNING)

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        del now
        with self._records.turn():
            nodes = [self._seen(record) for record in self._records.all() if tags.items() <= record.tags.items()]
        return tuple(node for node in nodes if node is not None)

    def terminate(self, name: str, now: datetime) -> None:
        del now
        with self._records.turn():
            record = self._records.get(name)
            if record is None or self._seen(record) is None:
                return
            record = replace(self._records.get(name) or record, ending=True)
            self._records.put(record)
        # Not in turn: others need not wait for a node that takes its time. To do this twice at once does no harm.
        if not end(self._mark(name), record.leader, record.confinement.groups, GRACE_S, PATIENCE_S):
            raise RetryLaterError(f"local: processes of {name} do not die; perhaps they wait for a disk", PATIENCE_S)
        with self._records.turn():
            if (left := self._records.get(name)) is not None:
                self._seen(left)

    def confinement(self, name: str) -> Confinement | None:
        """Return the limits of a node; None when it does not exist."""
        with self._records.turn():
            record = self._records.get(name)
        return None if record is None else record.confinement

    def log(self, name: str) -> Path:
        """Path of a node's output, also after its end."""
        return self._home / "logs" / f"{name}.log"

    def _seen(self, record: NodeRecord) -> CloudNode | None:
        """The node as it is now; None, and no trace of it, when nothing of it runs. In turn only."""
        self._reap(record.name)
        if record.leader is None and (leader := marked_leader(self._mark(record.name))) is not None:
            record = replace(record, leader=leader)
            self._records.put(record)
        if record.leader is not None and is_leader(record.leader, self._mark(record.name)):
            return self._node(record, CloudNodeState.TERMINATING if record.ending else CloudNodeState.RUNNING)
        if members(self._mark(record.name), record.leader, record.confinement.groups):
            return self._node(record, CloudNodeState.TERMINATING if record.ending else CloudNodeState.BROKEN)
        release(record.confinement)
        self._records.remove(record.name)
        return None

    def _same(self, request: NodeRequest, record: NodeRecord, node: CloudNode) -> CloudNode:
        if (record.instance_type, record.zone, record.market) != (request.instance_type, request.zone, request.market):
            raise GiveUpError(f"local: {record.name} exists and is a {record.instance_type} in {record.zone}")
        if record.ending:
            raise RetryLaterError(f"local: {record.name} is being terminated", GRACE_S)
        return node

    def _kind(self, request: NodeRequest) -> LocalKind:
        kind = self._kinds.get(request.instance_type)
        if kind is None:
            hint = nearest_name(request.instance_type, self._kinds)
            raise GiveUpError(f"local: unknown instance type {request.instance_type!r}; {hint}")
        like = [record for record in self._records.all() if record.instance_type == kind.name]
        if sum(self._seen(record) is not None for record in like) >= kind.stock:
            raise StockOutError(f"local: all {kind.stock} nodes of kind {kind.name} are in use")
        return kind

    def _reap(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            del self._children[name]

    def _mark(self, name: str) -> str:
        return f"{hashlib.blake2b(str(self._home).encode(), digest_size=8).hexdigest()}/{name}"

    @staticmethod
    def _node(record: NodeRecord, state: CloudNodeState) -> CloudNode:
        leader = record.leader
        number = "" if leader is None else f"{leader.pid}-{round(leader.started_at)}"
        return CloudNode(record.name, f"local-{number}", state, dict(record.tags))
