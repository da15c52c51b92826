"""The sending end of a link: a thread that copies chunks out of the engine and sends them, within the other end's
credit. When the link breaks it waits until it is opened anew, and goes on at the first chunk not acknowledged."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed import Work

from agents.edges.pair import SENDER
from agents.engines.errors import EngineError, UnknownRequestError
from agents.engines.kv_part import KvPart
from agents.engines.protocol import StageEngine
from agents.hand_off.chunk import ChunkHeader, cut
from agents.hand_off.link_end import ACKNOWLEDGEMENTS, CHUNKS, HEADERS, LinkEnd, LinkLostError
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvLinkBroken

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Transfer:
    run: int
    target_run: int
    parts: tuple[KvPart, ...]
    sent: int = 0
    acknowledged: int = 0


@dataclass(frozen=True, slots=True)
class _Sent:
    """A chunk that is not acknowledged yet. The tensors must live until they have left, or come."""

    transfer: _Transfer
    acknowledgement: torch.Tensor
    """(run, index, whether more is wanted)."""
    tensors: tuple[torch.Tensor, torch.Tensor]
    works: tuple[Work, Work, Work]


class KvSender:
    def __init__(
        self, engine: StageEngine, device: Any, settings: HandOffSettings, broken: Callable[[KvLinkBroken], None]
    ) -> None:
        """`engine`: its calls may come from any thread. `broken` is called on the link's thread."""
        self._engine = engine
        self._device = device
        self._settings = settings
        self._broken = broken
        self._changed = threading.Condition()
        self._order: OpenKvLink | None = None
        """To connect, as soon as the thread comes to it."""
        self._transfers: deque[_Transfer] = deque()
        self._unacknowledged: deque[_Sent] = deque()
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
        if self._end is not None:
            self._end.close()

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
                    self._send_due(self._end)
                    has_progressed |= self._take_acknowledgement(self._end)
            except Exception as error:
                self._hang_up()
                if order is not None and not self._is_closed:
                    is_known = isinstance(error, LinkLostError | EngineError)
                    _log.warning("link %s broke: %s", order.link, error, exc_info=not is_known)
                    self._broken(KvLinkBroken(order.link, order.epoch, has_progressed, str(error)[:1000]))
        self._hang_up()

    def _wait(self) -> bool:
        """Until there is something to do; False when it is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed
                    or self._order is not None
                    or (self._end is not None and (self._transfers or self._unacknowledged))
                )
            )
            return not self._is_closed

    def _connect(self, order: OpenKvLink) -> None:
        self._hang_up()
        at = (order.rendezvous_host, order.rendezvous_port)
        self._end = LinkEnd(f"{order.link} {order.epoch}", SENDER, at, self._device, self._settings.stall_s)

    def _hang_up(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.close()
        self._unacknowledged.clear()
        with self._changed:
            for transfer in self._transfers:
                transfer.sent = transfer.acknowledged

    def _send_due(self, end: LinkEnd) -> None:
        while len(self._unacknowledged) < self._settings.window_chunks:
            with self._changed:
                transfer = next((t for t in self._transfers if t.sent < len(t.parts)), None)
            if transfer is None:
                return
            part = transfer.parts[transfer.sent]
            try:
                copied = self._engine.export_kv(str(transfer.run), part)
            except UnknownRequestError:
                self._drop(transfer)  # freed: nobody wants it any more
                continue
            header = ChunkHeader(transfer.target_run, transfer.sent, part).tensor()
            answer = torch.empty(3, dtype=torch.int64)
            works = (end.ask(answer, ACKNOWLEDGEMENTS), end.send(header, HEADERS), end.send(copied, CHUNKS))
            self._unacknowledged.append(_Sent(transfer, answer, (header, copied), works))
            transfer.sent += 1

    def _take_acknowledgement(self, end: LinkEnd) -> bool:
        """Acknowledgements come in the order of the chunks."""
        if not self._unacknowledged:
            return False
        done = self._unacknowledged[0]
        for work in done.works:
            end.finish(work)
        self._unacknowledged.popleft()
        transfer, (run, index, is_wanted) = done.transfer, done.acknowledgement.tolist()
        if (run, index) != (transfer.target_run, transfer.acknowledged):
            raise LinkLostError(f"chunk {index} of run {run} was acknowledged, not {transfer.acknowledged}")
        transfer.acknowledged += 1
        if not is_wanted or transfer.acknowledged == len(transfer.parts):
            self._drop(transfer)
        return True

    def _drop(self, transfer: _Transfer) -> None:
        with self._changed:
            if transfer in self._transfers:
                self._transfers.remove(transfer)
