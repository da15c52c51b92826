"""The receiving end of a link: a thread that takes chunks into the inbox and acknowledges them."""

import logging
import threading

import torch

from agents.engines.errors import EngineError
from agents.engines.protocol import StageEngine
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader
from agents.hand_off.kv_inbox import KvInbox
from agents.hand_off.kv_memory import KvMemory
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink
from agents.transfer.errors import BadPieceError, LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import accept

_log = logging.getLogger(__name__)

_DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.bfloat16, torch.float16)}


class KvReceiver:
    """Its thread ends where the link breaks; the sending end asks for another one."""

    def __init__(self, engine: StageEngine, inbox: KvInbox, settings: HandOffSettings) -> None:
        """`engine`: its calls may come from any thread."""
        self._engine = engine
        self._inbox = inbox
        self._settings = settings
        self._taking = threading.Lock()
        """Held while a chunk is taken: one of a former epoch must not come between."""
        self._changing = threading.Lock()
        """Held for a moment, while the two below change."""
        self._epoch = -1
        self._end: LinkEnd | None = None

    def open(self, order: OpenKvLink) -> None:
        self._change(order.epoch, None)
        threading.Thread(target=self._run, args=(order,), name=f"kv-in {order.link}", daemon=True).start()

    def close(self) -> None:
        self._change(-1, None)

    def _change(self, epoch: int, end: LinkEnd | None) -> None:
        with self._changing:
            before, self._epoch, self._end = self._end, epoch, end
        if before is not None:
            before.hang_up()

    def _run(self, order: OpenKvLink) -> None:
        at = (order.rendezvous_host, order.rendezvous_port)
        end: LinkEnd | None = None
        try:
            dtype = _DTYPES[order.sender_dtype]
            end = accept(f"kv {order.link} {order.epoch}", at, self._settings.interface, self._settings.stall_s)
            with self._changing:
                if self._epoch == order.epoch:
                    self._end = end
            memory = KvMemory(self._engine, self._settings.chunk_bytes)
            while self._epoch == order.epoch:
                header = ChunkHeader.receive(end)
                is_wanted = self._take(order, header, end, memory, dtype)
                if header.wants_answer:
                    end.send(ACKNOWLEDGEMENT.pack(header.run, header.index, is_wanted))
        except (LinkLostError, BadPieceError, EngineError, KeyError) as error:
            if self._epoch == order.epoch:
                _log.warning("link %s broke: %s", order.link, error)
        finally:
            if end is not None:
                end.close()

    def _take(self, order: OpenKvLink, header: ChunkHeader, end: LinkEnd, memory: KvMemory, dtype: torch.dtype) -> bool:
        """Takes a chunk, and tells whether more of the run is wanted."""
        part, facts = header.part, self._engine.facts
        size = part.kv_bytes(facts.head_dim, dtype)
        if part.heads != facts.kv_heads:
            raise BadPieceError(f"a chunk of {part.heads} KV heads, of {facts.kv_heads}")
        if size > self._settings.chunk_bytes:
            raise BadPieceError(f"{part} takes {size} bytes, a chunk has {self._settings.chunk_bytes} at most")
        with self._taking:
            if self._epoch != order.epoch:
                raise LinkLostError("connected again meanwhile")

            def bring(request_id: str | None) -> bool:
                if request_id is None:
                    return end.receive_piece(size, None)
                return memory.receive(end, request_id, part, dtype)

            return self._inbox.take(order.link, header, size, bring, self._settings.stall_s)
