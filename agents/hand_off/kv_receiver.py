"""The receiving end of a link, which takes chunks into the inbox and acknowledges them."""

from functools import partial

import torch

from agents.engines.protocol import KvStore
from agents.hand_off.chunk import ACKNOWLEDGEMENT, ChunkHeader
from agents.hand_off.kv_inbox import KvInbox
from agents.hand_off.kv_memory import KvMemory
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink
from agents.transfer.errors import BadPieceError
from agents.transfer.link import LinkEnd
from agents.transfer.rendezvous import accept
from agents.transfer.reopened_link import ReopenedLink

_DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.bfloat16, torch.float16)}


class KvReceiver:
    """Where the link breaks, the sending end asks for another connection."""

    def __init__(self, link: str, engine: KvStore, inbox: KvInbox, settings: HandOffSettings) -> None:
        """`engine`: its calls may come from any thread."""
        self._engine = engine
        self._inbox = inbox
        self._settings = settings
        self._link = ReopenedLink(link)
        self.close = self._link.close

    def open(self, order: OpenKvLink) -> None:
        name, at = f"kv {order.link} {order.epoch}", (order.rendezvous_host, order.rendezvous_port)
        meet = partial(accept, name, at, self._settings.interface, self._settings.stall_s, bytes.fromhex(order.secret))
        self._link.open(order.epoch, meet, lambda end: self._serve(order, end))

    def _serve(self, order: OpenKvLink, end: LinkEnd) -> None:
        facts, dtype = self._engine.facts, _DTYPES[order.sender_dtype]
        memory = KvMemory(self._engine, self._settings.chunk_bytes)
        while self._link.is_latest(end):
            header = ChunkHeader.receive(end)
            part, size = header.part, header.part.kv_bytes(facts.head_dim, dtype)
            if part.heads != facts.kv_heads:
                raise BadPieceError(f"a chunk of {part.heads} KV heads, of {facts.kv_heads}")
            if size > self._settings.chunk_bytes:
                raise BadPieceError(f"{part} takes {size} bytes, a chunk has {self._settings.chunk_bytes} at most")
            bring = partial(memory.receive, end, part, dtype)
            is_wanted = self._inbox.take(order.link, header, size, bring, self._settings.stall_s)
            if header.wants_answer:
                end.send(ACKNOWLEDGEMENT.pack(header.run, header.index, is_wanted))
