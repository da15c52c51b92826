"""The KV cache of an engine as memory that links copy out of and into."""

from contextlib import nullcontext

import torch

from agents.engines.errors import UnknownRequestError
from agents.engines.kv_part import KvPart
from agents.engines.protocol import KvStore
from agents.transfer.link import LinkEnd
from agents.transfer.memory import Memory


class KvMemory:
    """One for each end of a link. Where the engine lends no memory, or keeps another data type than what comes, chunks
    are copied through memory of this object's own."""

    def __init__(self, engine: KvStore, chunk_bytes: int) -> None:
        self._engine = engine
        self._frame = torch.empty(chunk_bytes, dtype=torch.uint8)

    def outgoing(self, request_id: str, part: KvPart) -> Memory:
        """Raises UnknownRequestError, and the memory does once the request is freed."""
        if (lend := self._engine.lent_kv) is not None:
            return lend(request_id, part)
        kv, memory = self._framed(part, self._engine.facts.dtype)
        self._engine.export_kv(request_id, part, kv)
        return memory

    def receive(self, end: LinkEnd, part: KvPart, dtype: torch.dtype, request_id: str | None) -> bool:
        """Takes a chunk off the link, which has it in `dtype`; False where it is void, or the request is freed or none
        wants it."""
        lend, facts = self._engine.lent_kv, self._engine.facts
        size = part.kv_bytes(facts.head_dim, dtype)
        if request_id is None:
            return end.receive_piece(size, None)
        if lend is not None and dtype == facts.dtype:
            return end.receive_piece(size, lend(request_id, part))
        kv, memory = self._framed(part, dtype)
        if not end.receive_piece(size, memory):
            return False
        try:
            self._engine.import_kv(request_id, part, kv)
        except UnknownRequestError:
            return False  # freed a moment ago
        return True

    def _framed(self, part: KvPart, dtype: torch.dtype) -> tuple[torch.Tensor, Memory]:
        """(2, layers, tokens, heads, head_dim), and its bytes."""
        head_dim = self._engine.facts.head_dim
        held = self._frame[: part.kv_bytes(head_dim, dtype)]
        return held.view(dtype).view(part.shape(head_dim)), lambda: nullcontext((held.numpy().data,))
