"""An engine that computes nothing: what is left of a step is what the pipeline around it costs."""

from collections.abc import Sequence

import torch

from agents.engines.batch import StepBatch
from agents.engines.layer_range import LayerRange
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import Sample, StepOutput

KV_BLOCKS = 100_000
BLOCK_TOKENS = 16
VOCABULARY = 100
_MOST_ROWS = 8192


class IdleEngine:
    """The part of a StageEngine that a worker uses: rows come and go, every sample is token 5."""

    def __init__(self, stage: int, stages: int, hidden_size: int, dtype: torch.dtype) -> None:
        self.facts = StageFacts(
            engine="idle",
            held=LayerRange(stage, 1, first=stage == 0, last=stage == stages - 1),
            model_layers=stages,
            hidden_size=hidden_size,
            vocab_size=VOCABULARY,
            max_context_tokens=0,
            dtype=dtype,
            device=torch.device("cpu"),
            first_kv_head=0,
            kv_heads=1,
            head_dim=1,
            block_tokens=BLOCK_TOKENS,
            kv_blocks=KV_BLOCKS,
            stop_token_ids=(),
            loaded_bytes=0,
            load_s=0.0,
        )
        self._hidden = torch.zeros(_MOST_ROWS, hidden_size, dtype=dtype)

    def step(self, batch: StepBatch, _rows: torch.Tensor) -> StepOutput:
        if not self.facts.held.last:
            return StepOutput(hidden=self._hidden[: batch.tokens])
        return StepOutput(samples=tuple(Sample(r.id, 5, False) for r in batch.requests if r.sampling))

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        """Do nothing: nothing is held."""
