"""An engine that several threads may call: one has it compute, others copy KV cache in and out meanwhile."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from agents.engines.batch import BlockName, StepBatch
from agents.engines.errors import UnknownRequestError
from agents.engines.kv_part import KvPart
from agents.engines.protocol import Lend, StageEngine, Wrote
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput
from agents.transfer.memory import Memory


@dataclass(frozen=True, slots=True)
class Computed:
    """What of a request is in the KV cache, to be copied."""

    tokens: int
    """In all held layers."""
    end_layer: int
    """Those before it have `reach` tokens."""
    reach: int


@dataclass(slots=True)
class _StepUnderWay:
    """The latest step, or the one before that; who looks at it while it changes sees less than there is."""

    reach: dict[str, int]
    """Tokens of each of its requests, at its end."""
    end_layer: int


class GuardedEngine:
    """A StageEngine of which no request is freed while KV cache of it is copied or lent, and which knows what of a
    request is computed.

    Nothing else needs to wait. A step writes blocks of its own tokens; what is copied are others, or layers that have
    written theirs. A free waits for one copy of each link at most, since none begins after it.
    """

    def __init__(self, engine: StageEngine) -> None:
        self.facts: StageFacts = engine.facts
        self._engine = engine
        self._changed = threading.Condition()
        self._copies: Counter[str] = Counter()
        """Under way, by request."""
        self._leaving: set[str] = set()
        """Requests that are being freed."""
        self._frees = 0
        self._is_closing = False
        self.watchers: set[Callable[[], None]] = set()
        """Called on the engine's thread whenever more is computed; they must not hold it up."""
        self._tokens: dict[str, int] = {}
        """In the cache after the steps so far, by request."""
        self._under_way = _StepUnderWay({}, 0)
        self.wrote: Wrote = self._wrote
        engine.wrote = self.wrote

    @property
    def free_kv_blocks(self) -> int:
        return self._engine.free_kv_blocks

    def kv_blocks_short(self, batch: StepBatch) -> int:
        return self._engine.kv_blocks_short(batch)

    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        reach = {request.id: request.known_end for request in batch.requests}
        self._under_way = _StepUnderWay(reach, self.facts.held.first_layer)
        output = self._engine.step(batch, rows)
        self._tokens.update(reach)
        self._tell()
        return output

    def computed(self, request_id: str) -> Computed:
        """Called from any thread."""
        tokens, step = self._tokens.get(request_id, 0), self._under_way
        return Computed(tokens, step.end_layer, max(tokens, step.reach.get(request_id, 0)))

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        with self._changed:
            self._leaving.add(request_id)
            try:
                self._changed.wait_for(lambda: not self._copies[request_id])
                self._engine.free(request_id, kept)
                self._tokens.pop(request_id, None)
                self._frees += 1
            finally:
                self._leaving.remove(request_id)

    def drop(self, blocks: Sequence[BlockName]) -> None:
        """No copy is held up: whoever is copied holds its own blocks."""
        self._engine.drop(blocks)

    def reserve(self, request_id: str, tokens: int) -> None:
        self._engine.reserve(request_id, tokens)
        self._tokens[request_id] = tokens

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        with self._copying(request_id):
            self._engine.export_kv(request_id, part, out)

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        with self._copying(request_id):
            self._engine.import_kv(request_id, part, tensor)

    @property
    def lent_kv(self) -> Lend | None:
        lend = self._engine.lent_kv
        return None if lend is None else partial(self._lent, lend)

    def first_kept_token(self, layer: int, tokens: int) -> int:
        """Follows from the model alone."""
        return self._engine.first_kept_token(layer, tokens)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.wait_for(lambda: not self._copies.total())
            self._engine.close()

    def _wrote(self, end_layer: int) -> None:
        self._under_way.end_layer = end_layer
        self._tell()

    def _tell(self) -> None:
        for watcher in tuple(self.watchers):
            watcher()

    def _lent(self, lend: Lend, request_id: str, part: KvPart) -> Memory:
        memory, frees = None, -1

        @contextmanager
        def inside() -> Iterator[Sequence[memoryview]]:
            nonlocal memory, frees
            with self._copying(request_id):
                if memory is None or frees != self._frees:
                    memory, frees = lend(request_id, part), self._frees
                with memory() as pieces:
                    yield pieces

        return inside

    @contextmanager
    def _copying(self, request_id: str) -> Iterator[None]:
        """Raises UnknownRequestError for a request that is being freed."""
        with self._changed:
            if self._is_closing or request_id in self._leaving:
                raise UnknownRequestError(f"request {request_id!r} is being freed")
            self._copies[request_id] += 1
        try:
            yield
        finally:
            with self._changed:
                self._copies[request_id] -= 1
                if not self._copies[request_id]:
                    del self._copies[request_id]
                self._changed.notify_all()
