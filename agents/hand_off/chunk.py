"""How a request's KV cache is cut for its way, and how a chunk is announced."""

import struct
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import groupby
from typing import ClassVar

from agents.engines.kv_part import KvPart
from agents.engines.protocol import KvStore
from agents.transfer.errors import BadPieceError
from agents.transfer.link import LinkEnd

ACKNOWLEDGEMENT = struct.Struct("<qq?")
"""Goes back: a run, the last of its chunks that are all here, and whether more of it is wanted."""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    run: int
    """Its number at the receiving end."""
    index: int
    """Counts the chunks of the run on this link."""
    wants_answer: bool
    """Asks for an acknowledgement of this chunk and all before it."""
    part: KvPart

    _PACKED: ClassVar = struct.Struct("<9q")

    def packed(self) -> bytes:
        return self._PACKED.pack(self.run, self.index, self.wants_answer, *astuple(self.part))

    @classmethod
    def receive(cls, end: LinkEnd) -> "ChunkHeader":
        """Waits for the next chunk, however long that takes. Raises LinkLostError, and BadPieceError for what is no
        part of a KV cache."""
        run, index, wants_answer, *extents = cls._PACKED.unpack(end.receive(cls._PACKED.size, is_due=False))
        try:
            return cls(run, index, bool(wants_answer), KvPart(*extents))
        except ValueError as error:
            raise BadPieceError(str(error)) from error


def token_bytes(engine: KvStore) -> int:
    """Bytes that one layer keeps of one token: keys and values of the heads that are held."""
    facts = engine.facts
    return 2 * facts.kv_heads * facts.head_dim * facts.dtype.itemsize


def cut(
    engine: KvStore, tokens: int, first_layer: int, layers: int, chunk_bytes: int, span: range | None = None
) -> Iterator[KvPart]:
    """Cuts what `layers` from `first_layer` on keep of `tokens` tokens, or of those in `span`, each position of each
    layer once, into chunks of at most `chunk_bytes`, and of whole blocks where a chunk has room for one. Raises
    ValueError where it has none for a token."""
    facts, one_token = engine.facts, token_bytes(engine)
    if one_token > chunk_bytes:
        raise ValueError(f"a chunk has {chunk_bytes} bytes, one token of one layer {one_token}")
    block = facts.block_tokens if facts.block_tokens * one_token <= chunk_bytes else 1
    longest = chunk_bytes // one_token // block * block
    held = range(first_layer, first_layer + layers)
    begin, stop = (0, tokens) if span is None else (span.start, span.stop)
    for first_token, group in groupby(held, key=lambda layer: max(begin, engine.first_kept_token(layer, tokens))):
        same = list(group)
        kept = stop - first_token
        if kept < 1:
            continue  # a window so short that the next token sees none of these
        at_once = max(1, chunk_bytes // (kept * one_token))
        for layer in range(same[0], same[0] + len(same), at_once):
            count = min(at_once, same[0] + len(same) - layer)
            start = first_token
            while start < stop:
                end = stop if kept * one_token <= chunk_bytes else min(stop, start // block * block + longest)
                yield KvPart(layer, count, facts.first_kv_head, facts.kv_heads, start, end - start)
                start = end
