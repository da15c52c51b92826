"""The sending end of a link: each KV cache that goes over it is a blob of chunks, which stay in the engine."""

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from agents.engines.protocol import StageEngine
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader, cut
from agents.hand_off.kv_memory import KvMemory
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvLinkBroken
from agents.transfer.blob import Blob, Event, State
from agents.transfer.errors import BlobGoneError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import connect
from agents.transfer.reopened_link import ReopenedLink

_UNHEARD = 2
"""Acknowledgements of a blob that may be on their way before the sender waits for one."""
_TARGET = "target"
"""The one consumer of each blob."""

_Chunk = tuple[str, ChunkHeader]
"""The run that it is of here, and what is sent before it."""


@dataclass(slots=True)
class _Outgoing:
    blob: Blob[_Chunk]
    chunks: deque[_Chunk]
    """Those that are to be added to it."""
    sent: int = 0
    """Chunks over this connection, and those that were acknowledged before."""


class KvSender:
    """When the link breaks, it waits until it is opened anew, and goes on at the first chunk not acknowledged."""

    def __init__(
        self, link: str, engine: StageEngine, settings: HandOffSettings, broken: Callable[[KvLinkBroken], None]
    ) -> None:
        """`engine`: its calls may come from any thread. `broken` is called on the link's thread."""
        self._engine = engine
        self._settings = settings
        self._outgoing: dict[int, _Outgoing] = {}
        """By the target's run, in the order in which they go."""
        self._has_progressed = False
        self._link = ReopenedLink(
            link, lambda epoch, reason: broken(KvLinkBroken(link, epoch, self._has_progressed, reason[:1000]))
        )
        self.close = self._link.close

    def open(self, order: OpenKvLink) -> None:
        name, at = f"kv {order.link} {order.epoch}", (order.rendezvous_host, order.rendezvous_port)
        self._has_progressed = False
        self._link.open(order.epoch, partial(connect, name, at, self._settings.stall_s), self._serve)

    def send(self, told: SendKv) -> None:
        parts = list(cut(self._engine, told.tokens, told.first_layer, told.layers, self._settings.chunk_bytes))
        answered = self._settings.answered_chunks
        chunks = deque(
            (str(told.run), ChunkHeader(told.target_run, n - 1, n == len(parts) or n % answered == 0, part))
            for n, part in enumerate(parts, start=1)
        )
        if chunks:  # none where windows are so short that nothing is kept
            with self._link.changed:
                self._outgoing[told.target_run] = _Outgoing(Blob(1, _UNHEARD * answered, math.inf), chunks)
                self._link.changed.notify_all()

    def _serve(self, end: LinkEnd) -> None:
        memory = KvMemory(self._engine, self._settings.chunk_bytes)
        for each in list(self._outgoing.values()):
            each.sent = each.blob.done(_TARGET)
        while self._link.is_latest(end):
            if not self._outgoing:
                with self._link.changed:
                    self._link.changed.wait_for(lambda: self._outgoing or not self._link.is_latest(end))
            elif not self._send_next(end, memory):
                self._hear(end)

    def _send_next(self, end: LinkEnd, memory: KvMemory) -> bool:
        """False where all is sent, or there is no credit for more."""
        for each in list(self._outgoing.values()):
            blob = each.blob
            if each.chunks and blob.claim(0):
                blob.commit(0, each.chunks.popleft())
                if not each.chunks:
                    blob.happen(Event.END)
            if (chunk := blob.take(_TARGET, self, each.sent, 0)) is not None:
                each.sent += 1
                self._send(end, memory, *chunk)
                return True
            if blob.state is State.OPEN:
                return False  # one after the other, so that the first is there soonest
        return False

    def _send(self, end: LinkEnd, memory: KvMemory, run: str, header: ChunkHeader) -> None:
        facts = self._engine.facts
        size = header.part.kv_bytes(facts.head_dim, facts.dtype)
        with suppress(BlobGoneError):
            if end.send_piece(header.packed(), size, memory.outgoing(run, header.part)):
                return
        del self._outgoing[header.run]  # freed: nobody wants it any more

    def _hear(self, end: LinkEnd) -> None:
        run, index, is_wanted = ACKNOWLEDGEMENT.unpack(end.receive(ACKNOWLEDGEMENT.size))
        self._has_progressed = True
        if run not in self._outgoing:
            return  # it was freed since
        blob = self._outgoing[run].blob
        blob.take(_TARGET, self, index + 1, index + 1)
        if not is_wanted or blob.state is State.TAKEN:
            del self._outgoing[run]
