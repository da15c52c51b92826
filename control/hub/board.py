"""Work for nodes, and what their reports mean for instances: values in, values out, no sockets and no rows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import structs

from agents.messages.session import NEWEST_PROTOCOL
from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import ExecutorReport, Interruption, NodeReport, SchedulerReport, StageReport
from agents.messages.to_node import Pool, PoolMember, Run, RunScheduler, RunStage, RunWhole, Share, Work
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import BLOCK_TOKENS, GangExecutor, GangPlace
from control.hub.gpu_check import other_gpus
from control.lifecycle.event import Event, EventKind
from control.lifecycle.node_load import NodeLoad, together
from control.lifecycle.state import InstanceState
from control.printable import printable
from templates_lib.values.engines import ACTIVATIONS, ENGINES, stage_engines
from templates_lib.values.placement import ONLY

P = ParamSpec("P")
R = TypeVar("R")

_RUN = frozenset({InstanceState.LOADING, InstanceState.READY, InstanceState.DRAINING})
"""States in which the nodes of an instance have work."""
_HEARD = _RUN | {InstanceState.BOOTSTRAPPING}


@dataclass(slots=True)
class _Seen:
    """A node as it was last heard of."""

    is_connected: bool
    since_s: float
    protocol: int = NEWEST_PROTOCOL
    report: NodeReport | None = None


def _in_turn(method: Callable[Concatenate["Board", P], R]) -> Callable[Concatenate["Board", P], R]:
    @wraps(method)
    def locked(self: "Board", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._turn:
            return method(self, *args, **kwargs)

    return locked


class Board:
    """Times are monotonic seconds of the caller's. Thread-safe: the hub hears while whoever keeps the fleet decides."""

    def __init__(self, gateways: Mapping[str, str], lost_after_s: float, now_s: float) -> None:
        """`gateways`: public key → name, as they are whenever a node is told its work. `lost_after_s`: a node that is
        not connected for as long is lost; after a start of the control plane, counted from `now_s`."""
        self._turn = RLock()
        self._gateways = gateways
        self._lost_after_s = lost_after_s
        self._began_s = now_s
        self._keys: dict[str, str] = {}
        self._deployed: dict[str, Deployed] = {}
        self._place: dict[str, tuple[str, int]] = {}
        self._nodes: dict[str, _Seen] = {}

    @_in_turn
    def opens(self, at_s: float) -> None:
        """Nodes can be heard from then on, and not before: none is lost for what it could not say."""
        self._began_s = at_s

    @_in_turn
    def deploy(self, deployed: Iterable[Deployed]) -> None:
        """Replace what is known of all instances."""
        self._deployed = {each.instance: each for each in deployed}
        self._place = {
            node: (each.instance, place)
            for each in self._deployed.values()
            for place, node in enumerate(each.nodes)
            if node is not None
        }
        self._nodes = {name: seen for name, seen in self._nodes.items() if name in self._place or seen.is_connected}

    @_in_turn
    def know(self, keys: Mapping[str, str]) -> None:
        """Take the keys of all nodes that have registered: public key → node."""
        self._keys = {node: key for key, node in keys.items()}

    @_in_turn
    def joined(self, node: str, now_s: float, protocol: int = NEWEST_PROTOCOL) -> None:
        self._nodes[node] = _Seen(True, now_s, protocol)

    @_in_turn
    def left(self, node: str, now_s: float) -> None:
        self._nodes[node] = _Seen(False, now_s)

    @_in_turn
    def reported(self, node: str, report: NodeReport) -> None:
        if (seen := self._nodes.get(node)) is not None:
            seen.report = report

    @_in_turn
    def loads(self) -> dict[str, NodeLoad | None]:
        """Return the loads of all connected nodes; None for one that has not begun."""
        return {name: _load(self.report(name)) for name, seen in self._nodes.items() if seen.is_connected}

    @_in_turn
    def report(self, node: str) -> NodeReport | None:
        """The last one, of its present instance; None while it is not connected."""
        seen, place = self._nodes.get(node), self._place.get(node)
        if seen is None or seen.report is None or place is None or seen.report.instance != place[0]:
            return None
        return seen.report

    @_in_turn
    def announced(self) -> dict[str, str]:
        """Nodes that their clouds will take → why."""
        notices = {name: self._notice(name) for name in self._place}
        return {name: printable(notice.reason) for name, notice in notices.items() if notice is not None}

    @_in_turn
    def other_machines(self) -> dict[str, str]:
        """Nodes that are not what they were rented as → how they differ."""
        found = {
            node: self._difference(deployed, place)
            for deployed in self._deployed.values()
            if deployed.state in _RUN
            for place, node in enumerate(deployed.nodes)
            if node is not None
        }
        return {node: difference for node, difference in found.items() if difference}

    @_in_turn
    def scheduler(self, instance: str, executor: str = ONLY) -> SchedulerReport | None:
        """Return where the scheduler of an executor is and how it does, as far as its node says so."""
        deployed = self._deployed.get(instance)
        first = {e.id: e.places[0].slot for e in deployed.gang.executors} if deployed is not None else {}
        node = deployed.nodes[first[executor]] if deployed is not None and executor in first else None
        report = self.report(node) if node is not None else None
        return None if report is None else report.of(executor).scheduler

    @_in_turn
    def work(self, node: str) -> Work | None:
        """Return what a node shall do; None while it is to keep what it does, or has nothing to do yet."""
        instance, slot = self._place.get(node, ("", 0))
        deployed = self._deployed.get(instance)
        if deployed is None or deployed.state not in _RUN:
            return None
        nodes = [name for name in deployed.nodes if name is not None]
        if len(nodes) < len(deployed.nodes) or not all(name in self._keys for name in nodes):
            return None
        there = ((e, place) for e in deployed.gang.executors for place in e.places if place.slot == slot)
        runs = tuple(self._run(deployed, executor, place, nodes) for executor, place in there)
        slab_mib = max((each.slab_mib for each in deployed.files.values()), default=0)
        return Work(instance, runs, deployed.state is InstanceState.DRAINING, slab_mib, _pool(deployed))

    @_in_turn
    def events(self, now_s: float) -> list[tuple[str, Event]]:
        """(instance, what has happened to it). Once the instance has moved on, or its nodes have, it is not said
        again."""
        found = [(each.instance, self._event(each, now_s)) for each in self._deployed.values() if each.state in _HEARD]
        return [(instance, event) for instance, event in found if event is not None]

    def _event(self, deployed: Deployed, now_s: float) -> Event | None:
        broke = self._broke(deployed)
        if broke is not None or deployed.state is InstanceState.BOOTSTRAPPING:
            return broke or self._all_there(deployed)
        return self._lost(deployed, now_s) or self._announced(deployed) or self._progress(deployed)

    def _broke(self, deployed: Deployed) -> Event | None:
        for place, node in enumerate(deployed.nodes):
            seen, report = (self._nodes.get(node), self.report(node)) if node is not None else (None, None)
            if seen is not None and seen.is_connected and seen.protocol < deployed.gang.protocol:
                old = f"the agent of {node} is of an earlier release, which cannot run what its instance is made of"
                return Event(EventKind.BROKE, f"{old}: end the node, a new one has this release")
            if report is not None and report.failure:
                return Event(EventKind.BROKE, f"{printable(report.failure)} ({node})")
            if difference := self._difference(deployed, place):
                return Event(EventKind.BROKE, f"{node} is refused: {difference}")
        return None

    def _difference(self, deployed: Deployed, place: int) -> str:
        """Return how a node differs from what it was rented as; empty: it does not, or has not said what it is."""
        node = deployed.nodes[place]
        report = None if node is None else self.report(node)
        return "" if report is None else other_gpus(deployed.gang.configs[place], report.gpus)

    def _all_there(self, deployed: Deployed) -> Event | None:
        there = all(n is not None and n in self._keys and self._is_connected(n) for n in deployed.nodes)
        return Event(EventKind.AGENTS_UP, "all agents are connected") if there else None

    def _lost(self, deployed: Deployed, now_s: float) -> Event | None:
        for node in deployed.nodes:
            if node is None:
                return Event(EventKind.NODE_LOST, "a node of it is gone")
            silent_s = self._silent_s(node, now_s)
            if silent_s > self._lost_after_s:
                return Event(EventKind.NODE_LOST, f"{node} is silent for {silent_s:.0f} s")
        return None

    def _announced(self, deployed: Deployed) -> Event | None:
        """A node will be taken: what serves is drained ahead, so that its requests end, or go on elsewhere, in time."""
        kind = {InstanceState.READY: EventKind.DRAIN, InstanceState.LOADING: EventKind.RELEASE}.get(deployed.state)
        for node in deployed.nodes:
            notice = self._notice(node) if node is not None else None
            if kind is not None and notice is not None:
                return Event(kind, f"{node} will be taken in {notice.in_s:.0f} s: {printable(notice.reason)}")
        return None

    def _notice(self, node: str) -> Interruption | None:
        report = self.report(node)
        return None if report is None else report.interruption

    def _progress(self, deployed: Deployed) -> Event | None:
        reports = [self.scheduler(deployed.instance, executor.id) for executor in deployed.gang.executors]
        statuses = [each.status for each in reports if each is not None and each.status is not None]
        if len(statuses) < len(reports):
            return None
        if deployed.state is InstanceState.LOADING and all(s.state is SchedulerState.READY for s in statuses):
            return Event(EventKind.LOADED, "all stages are connected")
        is_empty = all(s.state is SchedulerState.DRAINING and not s.running + s.waiting for s in statuses)
        if deployed.state is InstanceState.DRAINING and is_empty:
            return Event(EventKind.DRAINED, "no request is left")
        return None

    def _is_connected(self, node: str) -> bool:
        seen = self._nodes.get(node)
        return seen is not None and seen.is_connected

    def _silent_s(self, node: str, now_s: float) -> float:
        seen = self._nodes.get(node)
        if seen is None:
            return now_s - self._began_s
        return 0.0 if seen.is_connected else now_s - seen.since_s

    def _run(self, deployed: Deployed, executor: GangExecutor, place: GangPlace, nodes: list[str]) -> Run:
        files, said = deployed.files.get(executor.id), self.scheduler(deployed.instance, executor.id)
        # What computes components of a graph holds nothing that a node would have to be given up for.
        restarts = not deployed.gang.is_of_one or executor.graph is not None
        share = place.compute, executor.devices, restarts
        member = deployed.gang.executors.index(executor) if deployed.gang.pool_bytes else None
        run = Run(executor.id, "", executor.engine, None, None, *share, processors=place.processors, member=member)
        if files is None:
            return run
        scheduler = self._run_scheduler(executor, files, nodes) if place is executor.places[0] else None
        stage = (
            _run_stage(deployed, executor, place, files, said) if said and executor.engine in stage_engines() else None
        )
        is_whole = executor.engine in ENGINES and ENGINES[executor.engine].is_whole
        whole = _run_whole(deployed, executor, place, files) if is_whole else None
        run = structs.replace(run, prefix_cache=files.prefix_cache, speculation=files.speculation)
        return structs.replace(run, model=files.name, scheduler=scheduler, stage=stage, whole=whole)

    def _run_scheduler(self, executor: GangExecutor, files: ModelFiles, nodes: list[str]) -> RunScheduler:
        stages: list[list[Share]] = [[] for _ in range(executor.places[-1].stage + 1)]
        for place in executor.places:
            each, name = place.replica, nodes[place.slot]
            tokens = each.chunk_tokens, each.kv_blocks
            if executor.graph is not None:  # it holds what its requests fill, however long the model has them
                tokens = files.max_context_tokens, each.batch_cap * -(-files.max_context_tokens // BLOCK_TOKENS)
            limits = (each.weight, each.batch_cap, *tokens, each.parts)
            stages[place.stage] += [Share(name, *limits, replica, place.joint) for replica in range(place.replicas)]
        workers = {self._keys[nodes[place.slot]]: nodes[place.slot] for place in executor.places}
        most = BLOCK_TOKENS, files.max_context_tokens, files.vocab_size
        return RunScheduler(tuple(map(tuple, stages)), *most, dict(self._gateways), workers)


def _pool(deployed: Deployed) -> Pool | None:
    """Return the KV cache that the executors share, once the files of all of them are known; None: each has its own."""
    executors, files = deployed.gang.executors, deployed.files
    if not deployed.gang.pool_bytes or any(each.id not in files for each in executors):
        return None
    members = tuple(_pool_member(deployed, executor, files[executor.id]) for executor in executors)
    return Pool(deployed.gang.pool_bytes, members)


def _pool_member(deployed: Deployed, executor: GangExecutor, files: ModelFiles) -> PoolMember:
    planned = files.longest_tokens or files.max_context_tokens
    # A smaller pool may not hold the longest request of each, and would be refused.
    longest = max(1, int(planned * deployed.gang.kv_share))
    tokens = files.request_tokens or float(longest)
    rate = deployed.requests_per_s.get(executor.id, 0.0)
    return PoolMember(files.weights, _dtype(executor), executor.places[0].compute, rate, tokens, longest)


def _load(report: NodeReport | None) -> NodeLoad | None:
    """Return the load of all executors together, and of each where there are several; None when none of them has
    begun."""
    loads = {} if report is None else {each.executor: _executor_load(each) for each in report.executors if each.stage}
    if report is None or not loads:
        return None
    several = loads if len(report.executors) > 1 else {}  # one that is away has no load, and not another's
    return replace(together(loads), metrics=report.metrics, executors=several)


def _executor_load(report: ExecutorReport) -> NodeLoad:
    stage = report.stage or StageReport(0, 0, 0)
    status = None if report.scheduler is None else report.scheduler.status
    if status is None:
        return NodeLoad(stage.cpu_share, stage.memory_mib)
    load = status.state, status.running, status.waiting, status.kv_blocks, status.kv_blocks_free
    return NodeLoad(stage.cpu_share, stage.memory_mib, *load)


def _run_stage(
    deployed: Deployed, executor: GangExecutor, held: GangPlace, files: ModelFiles, scheduler: SchedulerReport
) -> RunStage:
    layers = held.first_layer, held.layers, held.replica.kv_blocks, _dtype(executor), _memory_mib(deployed, held)
    split = held.shards, held.whole_experts, held.replicas, held.parts, held.joint
    return RunStage(scheduler.stages, scheduler.public_key, files.weights, *layers, *split)


def _run_whole(deployed: Deployed, executor: GangExecutor, held: GangPlace, files: ModelFiles) -> RunWhole:
    split = held.shards, held.whole_experts, held.parts
    part = () if executor.graph is None else (executor.graph.components, executor.graph.together)
    return RunWhole(files.weights, _dtype(executor), _memory_mib(deployed, held), *split, *part)


def _dtype(executor: GangExecutor) -> str:
    return ACTIVATIONS.get(executor.dtype, executor.dtype)


def _memory_mib(deployed: Deployed, held: GangPlace) -> int:
    memory = deployed.memory_mib[held.slot]
    if pool_bytes := deployed.gang.pool_bytes:
        return max(1, memory - (pool_bytes >> 20)) if memory else 0  # of all members: that they fit is planned
    return int(memory * (held.processors or held.compute))
