"""The sending end of a link: KV caches that go over it, each a blob of chunks."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader
from agents.hand_off.kv_blob import KvBlob
from agents.hand_off.kv_memory import KvMemory
from agents.hand_off.settings import HandOffSettings
from agents.hand_off.watched_kv import WatchedKv
from agents.messages.to_stage import OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvLinkBroken
from agents.transfer.errors import BlobGoneError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import connect
from agents.transfer.reopened_link import ReopenedLink


class KvSender:
    """When the link breaks, it waits until it is opened anew, and goes on at the first chunk not acknowledged."""

    def __init__(
        self, link: str, engine: WatchedKv, settings: HandOffSettings, broken: Callable[[KvLinkBroken], None]
    ) -> None:
        """`broken` is called on the link's thread."""
        self._engine = engine
        self._settings = settings
        self._blobs: dict[int, KvBlob] = {}
        """By the target's run, in the order in which they go."""
        self._has_news = False
        """More has been computed, or is to be sent, since the link's thread looked."""
        self._has_progressed = False
        self._link = ReopenedLink(
            link, lambda epoch, reason: broken(KvLinkBroken(link, epoch, self._has_progressed, reason[:1000]))
        )
        engine.watchers.add(self._look)

    def open(self, order: OpenKvLink) -> None:
        name, at = f"kv {order.link} {order.epoch}", (order.rendezvous_host, order.rendezvous_port)
        self._has_progressed = False
        meet = partial(connect, name, at, self._settings.stall_s, bytes.fromhex(order.secret))
        self._link.open(order.epoch, meet, self._serve)

    def send(self, told: SendKv) -> None:
        blob = KvBlob(told, self._engine, self._settings)
        if not blob.is_sent:  # else windows are so short that nothing is kept
            self._blobs[told.target_run] = blob
            self._wake()

    def forget(self, run: int) -> None:
        """The run is freed: nothing more of it is computed."""
        for target_run, blob in list(self._blobs.items()):
            if blob.run == str(run) and not blob.is_complete:
                self._blobs.pop(target_run, None)

    def close(self) -> None:
        self._engine.watchers.discard(self._look)
        self._link.close()

    def _look(self) -> None:
        """More is computed: on the engine's thread, which is not to wait for one that finds nothing to send."""
        if any(blob.is_due() for blob in tuple(self._blobs.values())):
            self._wake()

    def _wake(self) -> None:
        if not self._has_news:
            with self._link.changed:
                self._has_news = True
                self._link.changed.notify_all()

    def _serve(self, end: LinkEnd) -> None:
        memory = KvMemory(self._engine, self._settings.chunk_bytes)
        sent: dict[int, int] = {}
        """Chunks over this connection and those before it, by the target's run."""
        unheard = 0
        """Acknowledgements that are to come over this connection."""
        while self._link.is_latest(end):
            self._has_news = False
            if (chunk := self._next(sent)) is not None:
                unheard += self._send(end, memory, *chunk)
            elif unheard:
                self._hear(end)
                unheard -= 1
            else:
                with self._link.changed:
                    self._link.changed.wait_for(lambda: self._has_news or not self._link.is_latest(end))

    def _next(self, sent: dict[int, int]) -> tuple[str, ChunkHeader] | None:
        """The run here and what is sent before its chunk; None where all that is computed is sent, or there is no
        credit for more."""
        for target_run, blob in list(self._blobs.items()):
            index = sent.setdefault(target_run, blob.acknowledged)
            if (header := blob.chunk(index)) is not None:
                sent[target_run] += 1
                return blob.run, header
            if blob.has_more:
                return None  # one after the other, so that the first is there soonest
        return None

    def _send(self, end: LinkEnd, memory: KvMemory, run: str, header: ChunkHeader) -> bool:
        """Whether an acknowledgement is to come."""
        facts = self._engine.facts
        size = header.part.kv_bytes(facts.head_dim, facts.dtype)
        with suppress(BlobGoneError):
            if end.send_piece(header.packed(), size, memory.outgoing(run, header.part)):
                return header.wants_answer
            self._blobs.pop(header.run, None)  # freed in the middle of it, of which the other end is told
            return header.wants_answer
        self._blobs.pop(header.run, None)  # freed: nobody wants it any more
        return False

    def _hear(self, end: LinkEnd) -> None:
        run, index, is_wanted = ACKNOWLEDGEMENT.unpack(end.receive(ACKNOWLEDGEMENT.size))
        self._has_progressed = True
        if (blob := self._blobs.get(run)) is None:
            return  # it was freed since
        blob.acknowledge(index + 1)
        if not is_wanted or blob.is_sent:
            self._blobs.pop(run, None)
