"""KV cache that is on its way to this node: what of each reserved run is still to come."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.engines.protocol import KvStore
from agents.hand_off.chunk import ChunkHeader
from agents.transfer.errors import BadPieceError


@dataclass(slots=True)
class _Coming:
    missing: int
    """Positions, over all held layers, that have not come."""
    next_index: dict[str, int] = field(default_factory=dict)
    """Number of the next chunk, by link."""
    moved_bytes: int = 0


class KvInbox:
    """Thread-safe: the worker's threads reserve and free, the links' threads bring chunks."""

    def __init__(self, engine: KvStore, arrived: Callable[[int, int], None]) -> None:
        """`arrived`: called with a run and the bytes that came for it, once all of it is imported."""
        self._engine = engine
        self._arrived = arrived
        self._changed = threading.Condition()
        self._coming: dict[int, _Coming] = {}
        self._newest = -1

    def reserve(self, run: int, tokens: int) -> None:
        """Raises EngineError where there is no room."""
        self._engine.reserve(str(run), tokens)
        held = self._engine.facts.held
        layers = range(held.first_layer, held.end)
        missing = sum(tokens - self._engine.first_kept_token(layer, tokens) for layer in layers)
        with self._changed:
            if missing:
                self._coming[run] = _Coming(missing)
            self._newest = run
            self._changed.notify_all()
        if not missing:
            self._arrived(run, 0)

    def forget(self, run: int) -> None:
        with self._changed:
            self._coming.pop(run, None)

    def take(
        self, link: str, header: ChunkHeader, chunk_bytes: int, bring: Callable[[str | None], bool], timeout_s: float
    ) -> bool:
        """Have a chunk brought; False when the run wants no more. Waits for a run that is still to be reserved.

        `bring`: reads it off the link, into the KV cache of a request or, where there is none, nowhere; False where it
        is not in that request now. A chunk that came before, over a link that broke, is passed over. Raises
        BadPieceError, and what `bring` raises."""
        with self._changed:
            if not self._changed.wait_for(lambda: header.run <= self._newest, timeout_s):
                raise BadPieceError(f"run {header.run} has not been reserved within {timeout_s:g} s")
            coming = self._coming.get(header.run)
        if coming is None:
            bring(None)
            return False
        coming.moved_bytes += chunk_bytes
        expected = coming.next_index.get(link, 0)
        if header.index < expected:
            bring(None)
            return True
        if header.index > expected:
            raise BadPieceError(f"{link} brought chunk {header.index} of run {header.run}, expected {expected}")
        if not bring(str(header.run)):
            return False
        with self._changed:
            coming.next_index[link] = expected + 1
            coming.missing -= header.part.layers * header.part.tokens
            if coming.missing > 0 or self._coming.pop(header.run, None) is None:
                return True
        if coming.missing < 0:
            raise BadPieceError(f"more came for run {header.run} than its KV cache has")
        self._arrived(header.run, coming.moved_bytes)
        return True
