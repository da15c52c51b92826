"""A KV cache that is sent: a blob of chunks, which stay in the engine and are cut as they are computed."""

import math
from collections import deque

from agents.engines.kv_part import KvPart
from agents.hand_off.chunk import ChunkHeader, cut, token_bytes
from agents.hand_off.settings import HandOffSettings
from agents.hand_off.watched_kv import WatchedKv
from agents.messages.to_stage import SendKv
from agents.transfer.blob import Blob, Event, State

_UNHEARD = 2
"""Acknowledgements that may be on their way before the sender waits for one."""
_TARGET = "target"
"""The one consumer."""


class KvBlob:
    """Chunks of one step of the engine after those of the step before, layer by layer. The link's thread owns it."""

    def __init__(self, told: SendKv, engine: WatchedKv, settings: HandOffSettings) -> None:
        self.run = str(told.run)
        self._told = told
        self._engine = engine
        self._settings = settings
        self._blob: Blob[ChunkHeader] = Blob(1, _UNHEARD * settings.answered_chunks, math.inf)
        self._cut: deque[KvPart] = deque()
        """Computed, and not added to the blob yet."""
        self._chunks = 0
        """Added."""
        self._end_layer = told.first_layer + told.layers
        self._token_bytes = token_bytes(engine)
        self._least_bytes = min(settings.least_bytes, settings.chunk_bytes)
        self._span = range(0)
        """Tokens that are being cut, in layers before `_layer` they are."""
        self._layer = self._end_layer
        held = range(told.first_layer, self._end_layer)
        self._missing = sum(max(0, told.tokens - engine.first_kept_token(layer, told.tokens)) for layer in held)
        """Positions, over all layers, that are not in the blob."""

    @property
    def is_sent(self) -> bool:
        """Whether it needs nothing more: the other end has all of it, or there is nothing to have."""
        return self._blob.state is State.TAKEN or not (self._missing or self._chunks)

    @property
    def is_complete(self) -> bool:
        """Whether all of it has been added."""
        return not self._missing

    @property
    def acknowledged(self) -> int:
        return self._blob.done(_TARGET)

    def acknowledge(self, chunks: int) -> None:
        self._blob.take(_TARGET, self, chunks, chunks)

    @property
    def has_more(self) -> bool:
        """Whether there is a chunk to be added."""
        while not self._cut and self._advance():
            pass
        return bool(self._cut)

    def chunk(self, index: int) -> ChunkHeader | None:
        """Return what is sent before chunk `index`; None where it is not computed yet, or there is no credit for it."""
        if index == self._chunks and self.has_more and self._blob.has_room:
            self._add(self._cut.popleft())
        return self._blob.take(_TARGET, self, index, 0)

    def is_due(self) -> bool:
        """Whether more is computed that is to be sent now. For the engine's thread, while the link's thread changes
        what this looks at: what it misses amid a step, it sees at the end of it."""
        if self.is_complete:
            return False
        told, now = self._told, self._engine.computed(self.run)
        if now.tokens >= now.reach:
            return now.tokens > 0  # one whose prompt has not begun has nothing, whatever is computed of others
        begun = self._layer < self._end_layer
        begin, layer = (self._span.start, self._layer) if begun else (self._span.stop, told.first_layer)
        return self._is_enough(min(now.end_layer, self._end_layer) - layer, min(now.reach, told.tokens) - begin)

    def _is_enough(self, layers: int, tokens: int) -> bool:
        return layers * tokens * self._token_bytes >= self._least_bytes

    def _add(self, part: KvPart) -> None:
        self._missing -= part.layers * part.tokens
        self._chunks += 1
        wants_answer = not self._missing or self._chunks % self._settings.answered_chunks == 0
        self._blob.commit(ChunkHeader(self._told.target_run, self._chunks - 1, wants_answer, part))
        if not self._missing:
            self._blob.happen(Event.END)

    def _advance(self) -> bool:
        """Cut what has been computed since; False where that is nothing."""
        told, now = self._told, self._engine.computed(self.run)
        if self._layer == self._end_layer:
            end = self._span.stop
            reach = now.tokens if now.tokens > end else now.reach
            if reach <= end:
                return False
            self._span, self._layer = range(end, min(reach, told.tokens)), told.first_layer
        is_whole = now.tokens >= self._span.stop
        layers = (self._end_layer if is_whole else min(now.end_layer, self._end_layer)) - self._layer
        if layers < 1 or not (is_whole or self._is_enough(layers, len(self._span))):
            return False
        chunk_bytes = self._settings.chunk_bytes
        self._cut.extend(cut(self._engine, told.tokens, self._layer, layers, chunk_bytes, self._span))
        self._layer += layers
        return True
