"""The stage workers of an instance, as its scheduler sees them: who is there, what each holds, are they connected."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.kv_shape import KvShape, StageLayers
from agents.messages.to_gateway import NodeStats
from agents.messages.to_stage import (
    NOWHERE,
    Connect,
    DropKept,
    FreeRuns,
    GiveRows,
    Leave,
    ReserveRun,
    StageEntry,
    StageStep,
)
from agents.messages.to_stage_scheduler import (
    KvArrived,
    KvLinkBroken,
    RowsHere,
    RowsMissing,
    StageBusy,
    StageConnected,
    StageFailed,
    StageLoaded,
    StageSampled,
    ToStageScheduler,
)
from agents.scheduler.flight import BadResultError
from agents.scheduler.given import RowsTaken
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import DropBlocks, GroupStep, ReleaseKv, ReserveKv, StepEntry, TakeRows
from agents.scheduler.stage_check import faults
from agents.scheduler.workers import WorkerPlace, Workers

if TYPE_CHECKING:
    from agents.transfer.rendezvous import Rendezvous

_log = logging.getLogger(__name__)
_ROWS_WAIT_S = 10.0
"""For rows of other components, which are complete when a request comes with them: for a link to where they lie, and
for room in the sidecar that takes them."""
_HELD_ROWS_BYTES = 256 << 20
"""Of a node of the first stage, for rows of requests whose prompt is not computed yet."""
_BYTES = {"float32": 4}
"""Of a number, by data type; 2 where it is not named."""


class Arrivals:
    """What comes for each run, KV cache or rows of other components, from when it is asked for until the run is over:
    a peer that is a pipeline inside has all of it when each of its parts has."""

    def __init__(self) -> None:
        self._moved_bytes: dict[int, dict[WorkerPlace, int | None]] = {}
        """By run and worker; None: not there yet."""

    def expect(self, run: int, places: list[WorkerPlace]) -> None:
        self._moved_bytes[run] = dict.fromkeys(places)

    def arrive(self, run: int, place: WorkerPlace, moved_bytes: int) -> int | None:
        """Bytes over the links for the whole peer, once the last of its parts has its own; None: not yet, or the run is
        gone. Raises BadResultError."""
        known = self._moved_bytes.get(run)
        if known is None:
            return None
        if known.get(place, 0) is not None:
            raise BadResultError(f"the worker at {place} got something for run {run}, of which it waits for none")
        known[place] = moved_bytes
        of_peer = [moved for at, moved in known.items() if (at.stage, at.node) == (place.stage, place.node)]
        there = [moved for moved in of_peer if moved is not None]
        return sum(there) if len(there) == len(of_peer) else None

    def forget(self, run: int) -> None:
        self._moved_bytes.pop(run, None)


class GangEvents(Protocol):
    """Receiver of a gang's events. Called on the loop."""

    def stages_ready(self) -> None: ...

    def stage_sampled(self, node: int, message: StageSampled) -> None:
        """Take what `node`, a peer of the last stage, sampled."""

    def kv_arrived(self, stage: int, node: int, run: int, moved_bytes: int) -> None:
        """A peer of a stage has all of it."""

    def kv_link_broke(self, message: KvLinkBroken) -> None: ...

    def rows_here(self, stage: int, node: int, run: int) -> None:
        """A peer of a stage has all rows of other components that it was to take."""

    def rows_missing(self, message: RowsMissing) -> None: ...

    def stages_lost(self, reason: str) -> None:
        """Take note, once, that a worker left, failed or does not fit."""


class StageGang:
    """Make it on a running loop. One worker that is lost ends the gang."""

    def __init__(
        self,
        bind: str,
        interface: str,
        keys: KeyPair,
        workers: Mapping[str, str],
        layout: PipelineLayout,
        events: GangEvents,
        settings: ChannelSettings,
    ) -> None:
        """`workers`: public key → node name of the layout, whose workers share it. `interface`: of the private network,
        for the rendezvous."""
        self._layout = layout
        self._workers = Workers(layout)
        if set(self._workers.nodes) != set(workers.values()):
            raise ValueError(f"there are keys of {sorted(workers.values())}, and nodes {sorted(self._workers.nodes)}")
        self._events = events
        self._numbers: dict[bytes, int] = {}
        """Connection → the worker at its end, once it has said which of its node's it is."""
        self._there: dict[int, Peer] = {}
        self._loaded: dict[int, StageLoaded] = {}
        self._connected: set[int] = set()
        self._busy_s: dict[int, float] = {}
        self._arrivals, self._rows = Arrivals(), Arrivals()
        self.is_ready = False
        self._is_over = False
        self._farewell: Leave | None = None
        self._interface = interface
        self._own_rendezvous: Rendezvous | None = None
        self._listener: Listener[ToStageScheduler] = Listener(bind, keys, workers, ToStageScheduler, self, settings)
        self.endpoint = self._listener.endpoint

    @property
    def kv_shape(self) -> KvShape:
        """Return how the KV cache lies; known once all stages are ready."""
        stages = tuple(self._stage_layers(stage, len(peers)) for stage, peers in enumerate(self._layout.stages))
        one = self._loaded[0]
        return KvShape(stages, one.kv_heads, one.head_dim, one.dtype)

    @property
    def streams_kv(self) -> bool:
        """Whether all workers send KV cache while it is computed."""
        return all(loaded.streams_kv for loaded in self._loaded.values())

    @property
    def shares_kv(self) -> bool:
        """Whether all workers keep KV blocks of runs that are over, and begin others with them."""
        return all(loaded.shares_kv for loaded in self._loaded.values())

    @property
    def verifies_drafts(self) -> bool:
        """Whether all workers verify drafts."""
        return bool(self._loaded) and all(loaded.verifies_drafts for loaded in self._loaded.values())

    @property
    def rows_taken(self) -> RowsTaken | None:
        """What the workers take of other components' rows; None: not all of them can."""
        if not self._loaded or not all(loaded.takes_rows for loaded in self._loaded.values()):
            return None
        one = self._loaded[0]
        most = _HELD_ROWS_BYTES // (_BYTES.get(one.dtype.removeprefix("torch."), 2) * one.hidden_size)
        return RowsTaken(one.position_axes, one.attended_rows, most)

    @property
    def row_takers(self) -> int:
        """Count how often each tensor of such rows is taken: once, or by every worker of a way."""
        taken = self.rows_taken
        if taken is None:
            return 0
        return sum(max(peer.parts for peer in stage) for stage in self._layout.stages) if taken.attended_rows else 1

    @property
    def obeys_rules(self) -> bool:
        """Whether all workers choose tokens by rules."""
        return all(loaded.obeys_rules for loaded in self._loaded.values())

    @property
    def obeys_grammars(self) -> bool:
        """Whether the workers that choose tokens know them as text."""
        return bool(self._loaded) and all(loaded.obeys_grammars for loaded in self._loaded.values())

    @property
    def pools(self) -> bool:
        """Whether workers make states of prompts."""
        return bool(self._loaded) and all(loaded.pools for loaded in self._loaded.values())

    @property
    def node_stats(self) -> tuple[NodeStats, ...]:
        """Return counters of the nodes whose workers have all loaded."""
        stats = []
        for name, numbers in self._workers.nodes.items():
            loaded = [self._loaded[number] for number in numbers if number in self._loaded]
            if len(loaded) == len(numbers):
                busy_s = sum(self._busy_s.get(number, 0.0) for number in numbers) / len(numbers)
                read, load_s = sum(one.loaded_bytes for one in loaded), max(one.load_s for one in loaded)
                stats.append(NodeStats(name, busy_s, read, load_s))
        return tuple(stats)

    @property
    def rendezvous(self) -> tuple[str, int]:
        """Host and port where ends of links find each other; known once all stages have loaded.

        Raises OSError where the first worker keeps none, and none can be opened at our interface."""
        offered = self._loaded[0].rendezvous
        if offered is not None:
            return offered
        if self._own_rendezvous is None:  # for a worker of the previous version; it takes torch, which takes seconds
            from agents.transfer.rendezvous import Rendezvous

            self._own_rendezvous = Rendezvous(self._interface)
        return self._own_rendezvous.address

    def send(self, order: GroupStep | ReleaseKv | DropBlocks | ReserveKv | TakeRows) -> None:
        """Tell every worker its part."""
        match order:
            case GroupStep():
                for worker, message in node_steps(order, self._workers):
                    self._tell(worker, message)
            case ReleaseKv():
                self._arrivals.forget(order.run)
                self._rows.forget(order.run)
                for worker in self._workers.way(order.nodes):
                    kept = order.kept[self._workers.place(worker).stage] if order.kept else ()
                    self._tell(worker, FreeRuns((order.run,), kept))
            case DropBlocks():
                for worker in self._workers.parts(order.stage, order.node):
                    self._tell(worker, DropKept(order.blocks))
            case ReserveKv():
                way = self._workers.way(order.nodes)
                self._arrivals.expect(order.run, [self._workers.place(worker) for worker in way])
                for worker in way:
                    self._tell(worker, ReserveRun(order.run, order.tokens))
            case TakeRows():
                self._have_taken(order)

    def _have_taken(self, order: TakeRows) -> None:
        way = self._workers.way(order.nodes)
        wanted = {worker: order.attended + (order.placed if worker == way[0] else ()) for worker in way}
        takers = [worker for worker in way if wanted[worker]]
        self._rows.expect(order.run, [self._workers.place(worker) for worker in takers])
        for worker in way:
            name = self._workers.name(worker)
            of_node = sum(self._workers.name(other) == name for other in takers)
            self._tell(worker, GiveRows(order.run, order.grids, wanted[worker], max(1, of_node), _ROWS_WAIT_S))

    def tell(self, place: WorkerPlace, message: msgspec.Struct) -> None:
        """One worker. Nothing more is sent once it cannot be reached."""
        self._tell(self._workers.number(place), message)

    def _tell(self, worker: int, message: msgspec.Struct) -> None:
        peer = self._there.get(worker)
        if peer is not None:  # else gone, and said so
            self._send(peer, message)

    def _send(self, peer: Peer, message: msgspec.Struct) -> None:
        try:
            self._listener.send(peer, message)
        except ChannelError as error:
            self._lose(f"{peer.name} cannot be reached: {error}")

    def end(self, reason: str) -> None:
        """Send the workers home: those that still load too, or one of them would say first that its scheduler is lost,
        and nothing of why."""
        self._is_over = True
        self._farewell = Leave(reason[:1000])
        for peer in self._listener.peers:
            self._send(peer, self._farewell)

    def close(self) -> None:
        self._is_over = True
        self._listener.close()
        if self._own_rendezvous is not None:
            self._own_rendezvous.close()

    def joined(self, peer: Peer) -> None:
        """Send a worker that comes late its farewell; any other says next which worker it is."""
        if self._farewell is not None:
            self._send(peer, self._farewell)

    def left(self, peer: Peer, reason: str) -> None:
        self._lose(f"{peer.name} is lost: {reason}")

    def received(self, peer: Peer, message: ToStageScheduler) -> None:
        if isinstance(message, StageFailed):
            self._lose(f"{peer.name} failed: {message.reason}")
            return
        worker = self._numbers.get(peer.connection)
        if isinstance(message, StageLoaded):
            self._take_loaded(peer, message)
        elif worker is None:
            self._lose(f"{peer.name} does not say which of its workers it is")
        elif isinstance(message, StageConnected):
            self._connected.add(worker)
            if len(self._connected) == len(self._workers):
                self.is_ready = True
                self._events.stages_ready()
        elif isinstance(message, StageSampled):
            self._events.stage_sampled(self._workers.place(worker).node, message)
        elif isinstance(message, StageBusy):
            self._busy_s[worker] = message.busy_s
        elif isinstance(message, KvArrived | RowsHere):
            self._take_arrived(self._workers.place(worker), message)
        elif isinstance(message, RowsMissing):
            self._events.rows_missing(message)
        else:
            self._events.kv_link_broke(message)

    def _stage_layers(self, stage: int, peers: int) -> StageLayers:
        held = [[self._loaded[worker] for worker in self._workers.parts(stage, node)] for node in range(peers)]
        cuts = tuple(tuple(part.layers for part in parts) for parts in held)
        return StageLayers(held[0][0].first_layer, sum(cuts[0]), peers, cuts if max(map(len, cuts)) > 1 else ())

    def _take_arrived(self, place: WorkerPlace, message: KvArrived | RowsHere) -> None:
        try:
            if isinstance(message, RowsHere):
                if self._rows.arrive(message.run, place, 0) is not None:
                    self._events.rows_here(place.stage, place.node, message.run)
                return
            moved_bytes = self._arrivals.arrive(message.run, place, message.moved_bytes)
        except BadResultError as error:
            self._lose(str(error))
            return
        if moved_bytes is not None:
            self._events.kv_arrived(place.stage, place.node, message.run, moved_bytes)

    def _take_loaded(self, peer: Peer, loaded: StageLoaded) -> None:
        worker = self._workers.find(peer.name, loaded.worker)
        if worker is None:
            self._lose(f"{peer.name} has no worker {loaded.worker} in this instance")
            return
        if worker in self._there:
            self._lose(f"{peer.name} came back, without its KV cache")
            return
        self._numbers[peer.connection], self._there[worker], self._loaded[worker] = worker, peer, loaded
        if len(self._loaded) < len(self._workers):
            return
        fault = next(faults(self._layout, self._workers, self._loaded), None)
        if fault is not None:
            self._lose(fault)
            return
        try:
            rendezvous = self.rendezvous
        except OSError as error:
            self._lose(f"no rendezvous at {self._interface}: {error}")
            return
        max_rows = max(node.most_rows for stage in self._layout.stages for node in stage)
        tries_nccl = sum(loaded.device == "cuda" for loaded in self._loaded.values()) > 1
        for worker in range(len(self._workers)):
            edges = self._workers.sources(worker), self._workers.targets(worker)
            self._tell(worker, Connect(worker, *edges, *rendezvous, max_rows, tries_nccl))

    def _lose(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            _log.error("the instance has failed: %s", reason)
            self._events.stages_lost(reason)


def node_steps(step: GroupStep, workers: Workers) -> Iterator[tuple[int, StageStep]]:
    """Yield (worker, message) for every worker that has a part in a group's step, along the way."""
    told: dict[int, list[StageEntry]] = {}
    token_ids: dict[int, list[int]] = {}
    ways: dict[tuple[int, ...], tuple[int, ...]] = {}
    for entry in step.entries:
        way = ways.get(entry.nodes)
        if way is None:
            way = ways[entry.nodes] = workers.way(entry.nodes)
        for worker, one in zip(way, _stage_entries(entry, way, workers), strict=True):
            told.setdefault(worker, []).append(one)
        token_ids.setdefault(way[0], []).extend(entry.token_ids)
    partners = {partner for worker in told for partner in workers.partners(worker)}
    for worker in sorted(told.keys() | partners):
        yield worker, StageStep(step.number, tuple(told.get(worker, ())), tuple(token_ids.get(worker, ())))


def _stage_entries(entry: StepEntry, way: tuple[int, ...], workers: Workers) -> Iterator[StageEntry]:
    """Yield the entry for each worker on the way."""
    tokens = len(entry.token_ids)
    for at, worker in enumerate(way):
        source = way[at - 1] if at else NOWHERE
        is_last = at == len(way) - 1
        target = NOWHERE if is_last else way[at + 1]
        sampling, ruled, pooled = (entry.sampling, entry.ruled, entry.pooled) if is_last else (None, None, None)
        shared = entry.shared[workers.place(worker).stage] if entry.shared else ()
        yield StageEntry(
            entry.run, entry.position, tokens, source, target, sampling, entry.trace, ruled, shared, pooled, entry.draft
        )
