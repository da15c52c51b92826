"""What goes over a link at once: a chunk behind its header, in memory that is used again and again."""

import torch

from agents.engines.kv_part import KvPart
from agents.engines.stage_facts import StageFacts
from agents.hand_off.chunk import BadChunkError, ChunkHeader

HEADER_BYTES = 128
"""More than the fields take, so that chunks begin where processors like to copy from."""


class Frame:
    def __init__(self, chunk_bytes: int) -> None:
        self.whole = torch.empty(HEADER_BYTES + chunk_bytes, dtype=torch.uint8)
        fields = ChunkHeader.FIELDS
        self._header = self.whole[: fields * torch.int64.itemsize].view(torch.int64)
        self._chunk = self.whole[HEADER_BYTES:]

    def kv(self, part: KvPart, facts: StageFacts, dtype: torch.dtype) -> torch.Tensor:
        """(2, layers, tokens, heads, head_dim) of the chunk. Raises BadChunkError where it has no room for that."""
        shape = (2, part.layers, part.tokens, part.heads, facts.head_dim)
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        if size > len(self._chunk):
            raise BadChunkError(f"{part} takes {size} bytes, a chunk has {len(self._chunk)}")
        return self._chunk[:size].view(dtype).view(shape)

    def filled(self, header: ChunkHeader, kv: torch.Tensor) -> torch.Tensor:
        """What is to be sent. `kv`: where the chunk has been put."""
        self._header.copy_(torch.tensor(header.fields()))
        return self.whole[: HEADER_BYTES + kv.nbytes]

    def header(self) -> ChunkHeader:
        """Of what came. Raises BadChunkError for what is no part of a KV cache."""
        return ChunkHeader.of(self._header.tolist())
