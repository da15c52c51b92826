"""The receiving end of a link: a thread that takes chunks into the inbox and acknowledges them."""

import logging
import threading
from typing import Any

import torch

from agents.edges.pair import RECEIVER
from agents.engines.errors import EngineError
from agents.engines.stage_facts import StageFacts
from agents.hand_off.chunk import HEADER_FIELDS, MAX_CHUNK_BYTES, ChunkHeader, token_bytes
from agents.hand_off.kv_inbox import BadChunkError, KvInbox
from agents.hand_off.link_end import LinkEnd, LinkLostError
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink

_log = logging.getLogger(__name__)

_DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.bfloat16, torch.float16)}


class KvReceiver:
    """Where the link breaks the thread ends; the sending end asks for another one."""

    def __init__(self, facts: StageFacts, inbox: KvInbox, device: Any, settings: HandOffSettings) -> None:
        self._facts = facts
        self._inbox = inbox
        self._device = device
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
            before.close()

    def _run(self, order: OpenKvLink) -> None:
        at = (order.rendezvous_host, order.rendezvous_port)
        end: LinkEnd | None = None
        try:
            dtype = _DTYPES[order.sender_dtype]
            end = LinkEnd(f"{order.link} {order.epoch}", RECEIVER, at, self._device, self._settings.stall_s)
            with self._changing:
                if self._epoch == order.epoch:
                    self._end = end
            while self._epoch == order.epoch:
                self._take(end, order, dtype)
        except (LinkLostError, BadChunkError, EngineError, ValueError, KeyError) as error:
            _log.warning("link %s has ended: %s", order.link, error)
        finally:
            if end is not None:
                end.close()

    def _take(self, end: LinkEnd, order: OpenKvLink, dtype: torch.dtype) -> None:
        """One chunk. What comes after another epoch has begun is left to that."""
        announced = torch.empty(HEADER_FIELDS, dtype=torch.int64)
        end.receive(announced, is_due=False)
        header = ChunkHeader.of(announced)
        part = header.part
        size = part.layers * part.tokens * token_bytes(self._facts, dtype)
        if size > MAX_CHUNK_BYTES or part.heads != self._facts.kv_heads:
            raise BadChunkError(f"a chunk of {size} bytes and {part.heads} KV heads")
        tensor = torch.empty(2, part.layers, part.tokens, part.heads, self._facts.head_dim, dtype=dtype)
        end.receive(tensor)
        with self._taking:
            if self._epoch != order.epoch:
                return
            is_wanted = self._inbox.take(order.link, header, tensor, self._settings.stall_s)
        end.finish(end.send(torch.tensor((header.run, header.index, int(is_wanted)), dtype=torch.int64)))
