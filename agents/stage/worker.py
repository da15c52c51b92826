"""A stage worker: hears its scheduler on the loop, computes on a thread of its own."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.edges.mesh import MeshPlace, connect_mesh
from agents.edges.settings import EdgeSettings
from agents.engines.errors import EngineError, is_out_of_memory
from agents.engines.guarded_engine import GuardedEngine
from agents.engines.paced_engine import paced
from agents.engines.protocol import StageEngine
from agents.hand_off.kv_exchange import KvExchange
from agents.hand_off.settings import HandOffSettings
from agents.kv_pool.turns import Turns
from agents.messages.to_hub import OUT_OF_MEMORY
from agents.messages.to_stage import (
    CloseKvLink,
    Connect,
    DropKept,
    GiveRows,
    Leave,
    OpenKvLink,
    ReserveRun,
    SendKv,
    StageStep,
    ToStage,
)
from agents.messages.to_stage_scheduler import StageBusy, StageConnected, StageFailed, StageLoaded
from agents.stage.given import GivenToRuns
from agents.stage.orders import Order, Orders
from agents.stage.run_spans import RunSpans
from agents.stage.runner import StageRunner
from agents.tensors.node_tensors import NodeTensors
from agents.tracing.spans import spans_of
from agents.tracing.trace_parent import trace_id
from agents.transfer.errors import TransferError
from agents.transfer.rendezvous import Rendezvous, join

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    interface: str
    """This node's address on the private network: edges are bound to it."""
    peer_timeout_s: float
    """A neighbour that is silent for as long in a step has failed, and so has an engine whose turn lasts longer: more
    than the longest step."""
    worker: int = 0
    """Which of its node's workers it is."""
    pace: float = 1.0
    """Share of the time that the engine may compute, where nothing else holds the node to it."""
    sidecar: str = ""
    """Name of the node's tensor sidecar; empty: there is none, and no rows of other components are taken."""
    join_timeout_s: float = 600.0
    """The scheduler may start later than this worker, but not by more."""
    channel: ChannelSettings = field(default_factory=ChannelSettings)


class InstanceLostError(Exception):
    """The instance is over before its time: this stage failed, or its scheduler is lost."""


class StageWorker:
    """Make it on a running loop; `run` until the instance ends."""

    def __init__(
        self,
        engine: StageEngine,
        scheduler: Address,
        keys: KeyPair,
        settings: WorkerSettings,
        turns: Turns | None = None,
    ) -> None:
        """`turns`: that its steps wait for, where several models share the processors; None: they do not."""
        self._engine, self._turns = GuardedEngine(engine), turns
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._kv = KvExchange(self._engine, HandOffSettings(settings.interface), self._report)
        # The first worker of an instance is one of these, and lives as long as the instance: whoever loads torch anyway
        # keeps the store, so that the scheduler need not.
        self._rendezvous = None if settings.worker else Rendezvous(settings.interface)
        self._busy_s = 0.0
        self._turn_since_s: float | None = None
        """Since when it is this engine's turn; None: it is not."""
        held = engine.facts.held
        self._spans = RunSpans(spans_of("medley-stage"), f"layers {held.first_layer} to {held.end - 1}")
        self._beat: asyncio.TimerHandle | None = None
        tensors = NodeTensors(settings.sidecar, f"stage-{os.getpid()}", writes=False) if settings.sidecar else None
        self._given = GivenToRuns(engine.facts, tensors, self._report)
        self._orders = Orders(engine.facts.block_tokens, engine.facts.encoded_tokens)
        self._end: asyncio.Future[str] = self._loop.create_future()
        self._dialer: Dialer[ToStage] = Dialer(scheduler, keys, "stage", ToStage, self, settings.channel)

    async def run(self) -> str:
        """Serves until the scheduler says goodbye, and returns what it says; empty: stopped from here.

        Raises InstanceLostError, and PeerLostError or RefusedError where there is no scheduler. The engine's thread may
        then still be in a step or wait for a neighbour, which nothing can interrupt: the process should end."""
        try:
            await self._dialer.wait_up(self._settings.join_timeout_s)
            threading.Thread(target=self._compute, name="engine", daemon=True).start()
            return await self._end
        finally:
            if self._beat is not None:
                self._beat.cancel()
            self._dialer.close()
            self._given.close()
            if self._rendezvous is not None:
                self._rendezvous.close()

    def stop(self, reason: str = "") -> None:
        """Let `run` return."""
        if not self._end.done():
            self._end.set_result(reason)

    def up(self) -> None:
        facts = self._engine.facts
        self._send(
            StageLoaded(
                facts.held.first_layer,
                facts.held.layers,
                facts.model_layers,
                facts.hidden_size,
                str(facts.dtype),
                facts.vocab_size,
                facts.max_context_tokens,
                facts.block_tokens,
                facts.kv_blocks,
                facts.kv_heads,
                facts.head_dim,
                facts.loaded_bytes,
                facts.load_s,
                facts.device.type,
                self._settings.worker,
                streams_kv=True,
                rendezvous=None if self._rendezvous is None else self._rendezvous.address,
                obeys_rules=True,
                obeys_grammars=facts.obeys_grammars or not facts.held.last,
                shares_kv=facts.shares_kv,
                pools=facts.takes_rows or not facts.held.last,
                takes_rows=self._given.can_take,
                position_axes=facts.position_axes,
                attended_rows=facts.encoded_tokens,
                verifies_drafts=facts.verifies_drafts,
            )
        )
        if self._beat is None:
            self._on_beat()

    def _on_beat(self) -> None:
        self._beat = self._loop.call_later(self._settings.channel.heartbeat_s, self._on_beat)
        self._send(StageBusy(self._busy_s))
        since_s, longest_s = self._turn_since_s, self._settings.peer_timeout_s
        if since_s is not None and time.monotonic() - since_s > longest_s:
            # Nothing can end the step but the end of the process; its node starts another one.
            self._give_up(f"the engine hangs: it has been in a step for more than {longest_s:g} s")

    def received(self, message: ToStage) -> None:
        if isinstance(message, Leave):
            self.stop(message.reason)
        elif isinstance(message, GiveRows):
            self._given.give(message)
        elif isinstance(message, OpenKvLink | CloseKvLink | SendKv):
            self._kv.obey(message)
        elif isinstance(message, ReserveRun) and self._orders.has_room(message, self._free_blocks):
            self._reserve(message)
        else:
            self._orders.put(message)

    def _free_blocks(self) -> int:
        return self._engine.free_kv_blocks

    def down(self, reason: str) -> None:
        """Orders may be lost, and with them the requests here: the instance is over."""
        self._lose(f"the scheduler is lost: {reason}")

    def _compute(self) -> None:
        """The engine's thread: obeys in order, until something breaks."""
        try:
            runner = self._connect()
            while True:
                order = self._orders.get()
                self._do(order, runner)
                self._orders.done()
        except (TransferError, EngineError) as error:
            self._give_up(str(error))
        except Exception as error:
            _log.exception("the stage failed")
            memory = f"{OUT_OF_MEMORY}: " if is_out_of_memory(error) else ""
            self._give_up(f"{memory}{type(error).__name__}: {error}")

    def _do(self, order: Order, runner: StageRunner) -> None:
        if isinstance(order, StageStep):
            for entry in order.entries:
                if entry.trace:
                    _log.info("run %d begins", entry.run, extra={"trace": trace_id(entry.trace)})
            self._spans.begin(order.entries)
            with self._turn(order):
                sampled = runner.step(order)
            self._spans.count(order.entries, runner.busy_s - self._busy_s)
            self._busy_s = runner.busy_s
            if sampled is not None:
                self._report(sampled)
        elif isinstance(order, ReserveRun):
            self._kv.inbox.reserve(order.run, order.tokens)
        elif isinstance(order, DropKept):
            runner.drop(order.blocks)
        elif isinstance(order, Connect):
            raise TransferError("told to connect twice")
        else:
            for run in order.runs:
                self._kv.forget(run)
                runner.free(run, order.kept)
                self._spans.end(run)

    @contextmanager
    def _turn(self, step: StageStep) -> Iterator[None]:
        if self._turns is None:
            yield
            return
        with self._turns.turn(prompts=any(entry.tokens - len(entry.draft) > 1 for entry in step.entries)):
            self._turn_since_s = time.monotonic()
            yield
            self._turn_since_s = None

    def _reserve(self, order: ReserveRun) -> None:
        """Reserve blocks beside the engine's thread, which may be in a step."""
        try:
            self._kv.inbox.reserve(order.run, order.tokens)
        except EngineError as error:
            self._give_up(str(error))

    def _connect(self) -> StageRunner:
        told = self._orders.get()
        if not isinstance(told, Connect):
            raise TransferError(f"told to {type(told).__name__} before the edges are connected")
        self._orders.done()
        settings, facts = self._settings, self._engine.facts
        edges = EdgeSettings(
            facts.hidden_size,
            facts.dtype,
            told.max_rows,
            settings.peer_timeout_s,
            settings.interface,
            facts.device,
            told.tries_nccl,
        )
        store = join(told.rendezvous_host, told.rendezvous_port, settings.peer_timeout_s)
        mesh = connect_mesh(store, MeshPlace(told.worker, told.sources, told.targets), edges)
        self._report(StageConnected())
        return StageRunner(paced(self._engine, settings.pace), mesh, self._given)

    def _report(self, message: msgspec.Struct) -> None:
        self._loop.call_soon_threadsafe(self._send, message)

    def _give_up(self, reason: str) -> None:
        self._report(StageFailed(reason[:1000]))
        self._loop.call_soon_threadsafe(self._lose, reason)

    def _send(self, message: msgspec.Struct) -> None:
        try:
            self._dialer.send(message)
        except ChannelError as error:
            self._lose(f"the scheduler cannot be reached: {error}")

    def _lose(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_exception(InstanceLostError(reason))
