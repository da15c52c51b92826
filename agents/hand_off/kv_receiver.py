"""The receiving end of a link: a thread that takes chunks into the inbox and acknowledges them."""

import logging
import threading
from collections import deque
from typing import Any

import torch
from torch.distributed import Work

from agents.edges.pair import RECEIVER
from agents.engines.errors import EngineError
from agents.engines.stage_facts import StageFacts
from agents.hand_off.chunk import HEADER_FIELDS, ChunkHeader, token_bytes
from agents.hand_off.kv_inbox import BadChunkError, KvInbox
from agents.hand_off.link_end import ACKNOWLEDGEMENTS, CHUNKS, HEADERS, LinkEnd, LinkLostError
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import OpenKvLink

_log = logging.getLogger(__name__)

_DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.bfloat16, torch.float16)}


class _Room:
    """For one chunk and its header: asked for ahead, used again and again."""

    def __init__(self, end: LinkEnd, chunk_bytes: int) -> None:
        self.header = torch.empty(HEADER_FIELDS, dtype=torch.int64)
        self.chunk = torch.empty(chunk_bytes, dtype=torch.uint8)
        self._end = end
        self.ask()

    def ask(self) -> None:
        self._header_work = self._end.ask(self.header, HEADERS)
        self._chunk_work = self._end.ask(self.chunk, CHUNKS)

    def wait(self) -> ChunkHeader:
        self._end.finish(self._header_work, is_due=False)
        self._end.finish(self._chunk_work)
        return ChunkHeader.of(self.header)


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
            rooms = deque(_Room(end, self._settings.chunk_bytes) for _ in range(self._settings.window_chunks))
            answers: deque[tuple[Work, torch.Tensor]] = deque()
            while self._epoch == order.epoch:
                header = rooms[0].wait()
                is_wanted = self._take(order, header, self._kv(header, rooms[0].chunk, dtype))
                rooms[0].ask()
                rooms.rotate(-1)
                answer = torch.tensor((header.run, header.index, int(is_wanted)), dtype=torch.int64)
                answers.append((end.send(answer, ACKNOWLEDGEMENTS), answer))
                if len(answers) > self._settings.window_chunks:
                    end.finish(answers.popleft()[0])
        except (LinkLostError, BadChunkError, EngineError, ValueError, KeyError) as error:
            if self._epoch == order.epoch:
                _log.warning("link %s broke: %s", order.link, error)
        finally:
            if end is not None:
                end.close()

    def _take(self, order: OpenKvLink, header: ChunkHeader, kv: torch.Tensor) -> bool:
        """Whether more of the run is wanted."""
        with self._taking:
            if self._epoch != order.epoch:
                raise LinkLostError("connected anew meanwhile")
            return self._inbox.take(order.link, header, kv, self._settings.stall_s)

    def _kv(self, header: ChunkHeader, chunk: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """(2, layers, tokens, heads, head_dim), of the bytes that came."""
        part = header.part
        size = part.layers * part.tokens * token_bytes(self._facts, dtype)
        if size > len(chunk) or part.heads != self._facts.kv_heads:
            raise BadChunkError(f"a chunk of {size} bytes and {part.heads} KV heads, with room for {len(chunk)}")
        return chunk[:size].view(dtype).view(2, part.layers, part.tokens, part.heads, self._facts.head_dim)
