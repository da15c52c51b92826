"""An engine that several threads may call: one runs its steps, others copy KV cache in and out between two of them."""

import threading

import torch

from agents.engines.batch import StepBatch
from agents.engines.kv_part import KvPart
from agents.engines.protocol import StageEngine
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput


class GuardedEngine:
    """A StageEngine whose calls wait for each other. A step waits no longer than for one copy of each link."""

    def __init__(self, engine: StageEngine) -> None:
        self.facts: StageFacts = engine.facts
        self._engine = engine
        self._lock = threading.Lock()

    @property
    def free_kv_blocks(self) -> int:
        return self._engine.free_kv_blocks

    def kv_blocks_short(self, batch: StepBatch) -> int:
        with self._lock:
            return self._engine.kv_blocks_short(batch)

    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        with self._lock:
            return self._engine.step(batch, rows)

    def free(self, request_id: str) -> None:
        with self._lock:
            self._engine.free(request_id)

    def reserve(self, request_id: str, tokens: int) -> None:
        with self._lock:
            self._engine.reserve(request_id, tokens)

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        with self._lock:
            self._engine.export_kv(request_id, part, out)

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        with self._lock:
            self._engine.import_kv(request_id, part, tensor)

    def first_kept_token(self, layer: int, tokens: int) -> int:
        """Follows from the model alone."""
        return self._engine.first_kept_token(layer, tokens)

    def close(self) -> None:
        with self._lock:
            self._engine.close()
