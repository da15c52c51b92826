"""The sending end of a link: a thread that sends chunks as fast as the other end takes them. When the link breaks it
waits until it is opened anew, and goes on at the first chunk not acknowledged."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agents.engines.errors import EngineError
from agents.engines.kv_part import KvPart
from agents.engines.protocol import StageEngine
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader, cut
from agents.hand_off.kv_memory import KvMemory
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvLinkBroken
from agents.transfer.errors import BlobGoneError, LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import connect

_log = logging.getLogger(__name__)

_UNHEARD = 2
"""Acknowledgements that may be on their way before the sender waits for one."""


@dataclass(slots=True, eq=False)
class _Transfer:
    run: int
    target_run: int
    parts: tuple[KvPart, ...]
    sent: int = 0
    acknowledged: int = 0


class KvSender:
    def __init__(self, engine: StageEngine, settings: HandOffSettings, broken: Callable[[KvLinkBroken], None]) -> None:
        """`engine`: its calls may come from any thread. `broken` is called on the link's thread."""
        self._engine = engine
        self._settings = settings
        self._broken = broken
        self._changed = threading.Condition()
        self._order: OpenKvLink | None = None
        """Link to connect as soon as the thread comes to it."""
        self._transfers: deque[_Transfer] = deque()
        self._asked: deque[tuple[_Transfer, int]] = deque()
        """Chunks whose acknowledgement is to come, in this order."""
        self._memory = KvMemory(engine, settings.chunk_bytes)
        self._end: LinkEnd | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def open(self, order: OpenKvLink) -> None:
        with self._changed:
            self._order = order
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"kv-out {order.link}", daemon=True)
            self._thread.start()

    def send(self, told: SendKv) -> None:
        parts = tuple(cut(self._engine, told.tokens, told.first_layer, told.layers, self._settings.chunk_bytes))
        if not parts:
            return  # windows so short that nothing is kept
        with self._changed:
            self._transfers.append(_Transfer(told.run, told.target_run, parts))
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        end = self._end
        if end is not None:
            end.hang_up()

    def _run(self) -> None:
        order: OpenKvLink | None = None
        has_progressed = False
        while self._wait():
            try:
                with self._changed:
                    anew, self._order = self._order, None
                if anew is not None:
                    order, has_progressed = anew, False
                    self._connect(anew)
                elif self._end is not None:
                    has_progressed |= self._go_on(self._end)
            except Exception as error:
                self._hang_up()
                if order is not None and not self._is_closed:
                    is_known = isinstance(error, LinkLostError | EngineError)
                    _log.warning("link %s broke: %s", order.link, error, exc_info=not is_known)
                    self._broken(KvLinkBroken(order.link, order.epoch, has_progressed, str(error)[:1000]))
        self._hang_up()

    def _wait(self) -> bool:
        """Waits until there is something to do; False when it is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or self._order is not None
                    or (self._end is not None and (self._transfers or self._asked))
                )
            )
            return not self._is_closed

    def _connect(self, order: OpenKvLink) -> None:
        self._hang_up()
        at = (order.rendezvous_host, order.rendezvous_port)
        self._end = connect(f"kv {order.link} {order.epoch}", at, self._settings.stall_s)

    def _hang_up(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.close()
        self._asked.clear()
        with self._changed:
            for transfer in self._transfers:
                transfer.sent = transfer.acknowledged

    def _go_on(self, end: LinkEnd) -> bool:
        """Send a chunk, or hear of some; whether more is acknowledged than before."""
        if len(self._asked) < _UNHEARD:
            with self._changed:
                transfer = next((t for t in self._transfers if t.sent < len(t.parts)), None)
            if transfer is not None:
                self._send_next(end, transfer)
                return False
        return self._hear(end)

    def _send_next(self, end: LinkEnd, transfer: _Transfer) -> None:
        index, facts = transfer.sent, self._engine.facts
        part = transfer.parts[index]
        wants_answer = index + 1 == len(transfer.parts) or (index + 1) % self._settings.answered_chunks == 0
        header = ChunkHeader(transfer.target_run, index, wants_answer, part)
        try:
            memory = self._memory.outgoing(str(transfer.run), part)
            is_whole = end.send_piece(header.packed(), part.kv_bytes(facts.head_dim, facts.dtype), memory)
        except BlobGoneError:
            self._drop(transfer)  # freed: nobody wants it any more
            return
        if wants_answer:
            self._asked.append((transfer, index))
        if is_whole:
            transfer.sent += 1
        else:
            self._drop(transfer)

    def _hear(self, end: LinkEnd) -> bool:
        """Acknowledgements come in the order in which they were asked for."""
        if not self._asked:
            return False
        transfer, expected = self._asked[0]
        run, index, is_wanted = ACKNOWLEDGEMENT.unpack(end.receive(ACKNOWLEDGEMENT.size))
        self._asked.popleft()
        if (run, index) != (transfer.target_run, expected):
            raise LinkLostError(f"chunk {index} of run {run} was acknowledged, not {expected} of {transfer.target_run}")
        transfer.acknowledged = index + 1
        if not is_wanted or transfer.acknowledged == len(transfer.parts):
            self._drop(transfer)
        return True

    def _drop(self, transfer: _Transfer) -> None:
        with self._changed:
            if transfer in self._transfers:
                self._transfers.remove(transfer)
