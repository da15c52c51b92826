"""The sending end of a link: each KV cache that goes over it is a blob of chunks, which stay in the engine."""

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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


class KvSender:
    """When the link breaks, it waits until it is opened anew, and goes on at the first chunk not acknowledged."""

    def __init__(
        self, link: str, engine: StageEngine, settings: HandOffSettings, broken: Callable[[KvLinkBroken], None]
    ) -> None:
        """`engine`: its calls may come from any thread. `broken` is called on the link's thread."""
        self._engine = engine
        self._settings = settings
        self._blobs: dict[int, tuple[Blob[_Chunk], deque[_Chunk]]] = {}
        """And what is to be added to them, by the target's run, in the order in which they go."""
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
                self._blobs[told.target_run] = Blob(1, _UNHEARD * answered, math.inf), chunks
                self._link.changed.notify_all()

    def _serve(self, end: LinkEnd) -> None:
        memory = KvMemory(self._engine, self._settings.chunk_bytes)
        sent: dict[int, int] = {}
        """Chunks over this connection and those before it, by the target's run."""
        while self._link.is_latest(end):
            if not self._blobs:
                with self._link.changed:
                    self._link.changed.wait_for(lambda: self._blobs or not self._link.is_latest(end))
            elif not self._send_next(end, memory, sent):
                self._hear(end)

    def _send_next(self, end: LinkEnd, memory: KvMemory, sent: dict[int, int]) -> bool:
        """False where all is sent, or there is no credit for more."""
        for run, (blob, chunks) in list(self._blobs.items()):
            index = sent.setdefault(run, blob.done(_TARGET))
            if chunks and blob.claim(0):
                blob.commit(0, chunks.popleft())
                if not chunks:
                    blob.happen(Event.END)
            chunk = blob.take(_TARGET, self, index, 0)
            if chunk is not None:
                sent[run] += 1
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
        del self._blobs[header.run]  # freed: nobody wants it any more

    def _hear(self, end: LinkEnd) -> None:
        run, index, is_wanted = ACKNOWLEDGEMENT.unpack(end.receive(ACKNOWLEDGEMENT.size))
        self._has_progressed = True
        if run not in self._blobs:
            return  # it was freed since
        blob = self._blobs[run][0]
        blob.take(_TARGET, self, index + 1, index + 1)
        if not is_wanted or blob.state is State.TAKEN:
            del self._blobs[run]
