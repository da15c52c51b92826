"""The stage workers of an instance, as its scheduler sees them: who is there, what each holds, are they connected."""

import logging
from collections.abc import Mapping
from typing import Protocol

import msgspec

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.edges.rendezvous import Rendezvous
from agents.messages.kv_shape import KvShape, StageLayers
from agents.messages.to_gateway import NodeStats
from agents.messages.to_stage import Connect, FreeRuns, Leave, ReserveRun
from agents.messages.to_stage_scheduler import (
    KvArrived,
    KvLinkBroken,
    StageBusy,
    StageConnected,
    StageFailed,
    StageLoaded,
    StageSampled,
    ToStageScheduler,
)
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.node_steps import node_steps
from agents.scheduler.orders import GroupStep, Release, Reserve
from agents.scheduler.stage_check import faults

_log = logging.getLogger(__name__)


class GangEvents(Protocol):
    """Called on the loop."""

    def stages_ready(self) -> None: ...

    def stage_sampled(self, node: int, message: StageSampled) -> None:
        """`node`: of the last stage."""

    def kv_arrived(self, stage: int, node: int, message: KvArrived) -> None: ...

    def kv_link_broke(self, message: KvLinkBroken) -> None: ...

    def stages_lost(self, reason: str) -> None:
        """Once: a worker left, failed or does not fit."""


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
        """`workers`: public key → node name of the layout. `interface`: of the private network, for the rendezvous."""
        self._layout = layout
        self._places = {node.name: (s, n) for s, stage in enumerate(layout.stages) for n, node in enumerate(stage)}
        if set(self._places) != set(workers.values()):
            raise ValueError(f"there are keys of {sorted(workers.values())}, and nodes {sorted(self._places)}")
        self._events = events
        self._there: dict[tuple[int, int], Peer] = {}
        self._loaded: dict[tuple[int, int], StageLoaded] = {}
        self._connected: set[tuple[int, int]] = set()
        self._busy_s: dict[tuple[int, int], float] = {}
        self.is_ready = False
        self._is_over = False
        self._rendezvous = Rendezvous(interface)
        try:
            self._listener: Listener[ToStageScheduler] = Listener(bind, keys, workers, ToStageScheduler, self, settings)
        except OSError:
            self._rendezvous.close()
            raise
        self.endpoint = self._listener.endpoint

    @property
    def kv_shape(self) -> KvShape:
        """How the KV cache lies; once all stages are ready."""
        stages = tuple(
            StageLayers(self._loaded[stage, 0].first_layer, self._loaded[stage, 0].layers, len(nodes))
            for stage, nodes in enumerate(self._layout.stages)
        )
        one = self._loaded[0, 0]
        return KvShape(stages, one.kv_heads, one.head_dim, one.dtype)

    @property
    def node_stats(self) -> tuple[NodeStats, ...]:
        """Of those that have loaded."""
        return tuple(
            NodeStats(name, self._busy_s.get(place, 0.0), loaded.loaded_bytes, loaded.load_s)
            for name, place in self._places.items()
            if (loaded := self._loaded.get(place)) is not None
        )

    @property
    def rendezvous(self) -> tuple[str, int]:
        """Host and port where ends of links find each other."""
        return self._rendezvous.host, self._rendezvous.port

    def send(self, order: GroupStep | Release | Reserve) -> None:
        """Tell every node its part."""
        match order:
            case GroupStep():
                for stage, node, message in node_steps(order, len(self._layout.stages)):
                    self.tell((stage, node), message)
            case Release():
                for place in enumerate(order.nodes):
                    self.tell(place, FreeRuns((order.run,)))
            case Reserve():
                for place in enumerate(order.nodes):
                    self.tell(place, ReserveRun(order.run, order.tokens))

    def tell(self, place: tuple[int, int], message: msgspec.Struct) -> None:
        """Nothing more is sent once a worker cannot be reached."""
        peer = self._there.get(place)
        if peer is None:
            return  # gone, and said so
        try:
            self._listener.send(peer, message)
        except ChannelError as error:
            self._lose(f"a worker cannot be reached: {error}")

    def end(self, reason: str) -> None:
        """Send the workers home."""
        self._is_over = True
        for place in list(self._there):
            self.tell(place, Leave(reason[:1000]))

    def close(self) -> None:
        self._is_over = True
        self._listener.close()
        self._rendezvous.close()

    def joined(self, peer: Peer) -> None:
        place = self._places[peer.name]
        if place in self._there:
            self._lose(f"{peer.name} came back, without its KV cache")
        else:
            self._there[place] = peer

    def left(self, peer: Peer, reason: str) -> None:
        self._lose(f"{peer.name} is lost: {reason}")

    def received(self, peer: Peer, message: ToStageScheduler) -> None:
        place = self._places[peer.name]
        match message:
            case StageLoaded():
                self._take_loaded(place, message)
            case StageConnected():
                self._connected.add(place)
                if len(self._connected) == len(self._places):
                    self.is_ready = True
                    self._events.stages_ready()
            case StageSampled():
                self._events.stage_sampled(place[1], message)
            case StageBusy():
                self._busy_s[place] = message.busy_s
            case KvArrived():
                self._events.kv_arrived(*place, message)
            case KvLinkBroken():
                self._events.kv_link_broke(message)
            case StageFailed():
                self._lose(f"{peer.name} failed: {message.reason}")

    def _take_loaded(self, place: tuple[int, int], loaded: StageLoaded) -> None:
        self._loaded[place] = loaded
        if len(self._loaded) < len(self._places):
            return
        fault = next(faults(self._layout, self._loaded), None)
        if fault is not None:
            self._lose(fault)
            return
        max_rows = max(node.chunk_tokens + node.batch_cap for stage in self._layout.stages for node in stage)
        nodes = tuple(map(len, self._layout.stages))
        tries_nccl = sum(loaded.device == "cuda" for loaded in self._loaded.values()) > 1
        for stage, node in self._places.values():
            connect = Connect(nodes, stage, node, self._rendezvous.host, self._rendezvous.port, max_rows, tries_nccl)
            self.tell((stage, node), connect)

    def _lose(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            _log.error("the instance has failed: %s", reason)
            self._events.stages_lost(reason)
