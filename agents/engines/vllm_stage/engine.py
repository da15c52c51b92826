"""The vLLM stage engine."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from vllm.forward_context import set_forward_context
from vllm.platforms import current_platform
from vllm.sequence import IntermediateTensors

from agents.engines.batch import BlockName, StepBatch
from agents.engines.checks import check_batch, check_given, check_new, check_part, check_part_shape
from agents.engines.errors import EngineError
from agents.engines.grammars import Vocabulary, vocabulary_of
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import Wrote
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput
from agents.engines.torch_engine.block_pool import BlockPool
from agents.engines.torch_engine.block_table import BLOCK_TOKENS, WindowGroup
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_facts import decoder_facts
from agents.engines.torch_engine.logit_rules import RuledRequests
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.request_blocks import RequestBlocks
from agents.engines.torch_engine.sampler import sample_ends
from agents.engines.torch_engine.shard import WHOLE
from agents.engines.vllm_stage.attention import StageAttention
from agents.engines.vllm_stage.stage_model import VllmStageModel, load_stage_model
from agents.weights.checkpoint import Checkpoint
from agents.weights.meter import MeteredCheckpoint


def load_vllm_stage(
    checkpoint: Checkpoint,
    held: LayerRange,
    kv_blocks: int,
    dtype: torch.dtype,
    device: torch.device,
    memory_bytes: int | None = None,
) -> "VllmStageEngine":
    """Loads `held` of the model, on a CPU; one at a time in a process. `memory_bytes`: as of `load_torch_engine`.

    Raises UnsupportedModelError for a model that cannot be cut, WeightsError for missing or damaged files,
    OutOfMemoryError where weights and cache do not fit, ValueError on a GPU."""
    if not current_platform.is_cpu() or device.type != "cpu":
        raise ValueError("stages of vLLM run on CPUs so far")
    config = decoder_config(checkpoint.config)
    memory_need(checkpoint, config, held, dtype, WHOLE).check(held, kv_blocks, memory_bytes)
    start = time.perf_counter()
    metered = MeteredCheckpoint(checkpoint)
    try:
        stage = load_stage_model(metered, held, config.layers, BLOCK_TOKENS, dtype)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise EngineError(f"vLLM does not load {held}: {error}") from error
    facts = decoder_facts(
        "vllm", config, held, WHOLE, dtype, device, kv_blocks, metered.reading.stored_bytes, time.perf_counter() - start
    )
    vocabulary = vocabulary_of(checkpoint.path, config.vocab_size)
    facts = replace(facts, obeys_grammars=vocabulary is not None, shares_kv=True)
    return VllmStageEngine(facts, stage, config.windows[held.first_layer : held.end], vocabulary)


class VllmStageEngine:
    """A StageEngine whose layers are vLLM's. One block of a request is the same block in all layers, so that layers
    with a window keep what their window does not see, too."""

    def __init__(
        self,
        facts: StageFacts,
        stage: VllmStageModel,
        windows: tuple[int, ...],
        vocabulary: Vocabulary | None,
    ) -> None:
        """`windows`: of the held layers."""
        self.facts = facts
        self._windows = windows
        self._model: Any = stage.model
        self._config = stage.config
        self._attention = StageAttention(stage, facts, windows)
        self._blocks = _accounts(facts.kv_blocks)
        self._ruled = RuledRequests(vocabulary)
        self.wrote: Wrote = lambda _end_layer: None
        self._is_decode = False
        for number, layer in enumerate(stage.attention.values()):
            layer.register_forward_hook(partial(self._written, facts.held.first_layer + number + 1))

    @property
    def free_kv_blocks(self) -> int:
        return self._blocks.free_units

    def kv_blocks_short(self, batch: StepBatch) -> int:
        return self._blocks.units_short(batch)

    @torch.inference_mode()
    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        check_batch(self.facts, batch, rows, self._blocks.tokens)
        check_given(self.facts, batch, ())
        if self.facts.held.last:
            self._ruled.begin(batch, self.facts.device)
        self._blocks.grow(batch)
        self._is_decode = all(request.tokens == 1 for request in batch.requests)  # over soon: told of as a whole
        hidden = self._forward(batch, rows)
        self._blocks.advance(batch)
        if not self.facts.held.last:
            return StepOutput(hidden=hidden)
        return StepOutput(samples=sample_ends(batch, hidden, self._logits, self._ruled))

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        self._blocks.free(request_id, kept)
        self._ruled.forget(request_id)

    def drop(self, blocks: Sequence[BlockName]) -> None:
        self._blocks.drop(blocks)

    def reserve(self, request_id: str, tokens: int) -> None:
        check_new(request_id, tokens, self._blocks.tokens(request_id))
        self._blocks.reserve(request_id, tokens)

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        blocks = self._blocks_of(request_id, part)
        check_part_shape(part, out, self.facts.head_dim)
        for i, layer in enumerate(range(part.first_layer, _end(part))):
            out[:, i] = self._attention.read(layer, blocks, part)

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        blocks = self._blocks_of(request_id, part)
        check_part_shape(part, tensor, self.facts.head_dim)
        for i, layer in enumerate(range(part.first_layer, _end(part))):
            self._attention.write(layer, blocks, part, tensor[:, i].to(self.facts.dtype))

    lent_kv = None

    def first_kept_token(self, layer: int, tokens: int) -> int:
        return WindowGroup(self._windows[layer - self.facts.held.first_layer], ()).first_kept_token(tokens)

    def close(self) -> None:
        self._model = None
        self._attention.close()
        self._blocks = _accounts(0)

    def _forward(self, batch: StepBatch, rows: torch.Tensor) -> torch.Tensor:
        """The next stage's rows; on the last stage those that the LM head takes."""
        tables = [self._blocks.table(request.id).blocks[0].units[:, 0] for request in batch.requests]
        inputs = self._attention.inputs(batch, tables)
        context = set_forward_context(
            inputs.metadata, self._config, num_tokens=batch.tokens, slot_mapping=inputs.slot_mapping
        )
        with context:
            if self.facts.held.first:
                output = self._model(rows, inputs.positions, None)
            else:
                passed = {"hidden_states": torch.zeros_like(rows), "residual": rows}
                output = self._model(None, inputs.positions, IntermediateTensors(passed))
        if self.facts.held.last:
            return output  # type: ignore[no-any-return]
        return output["hidden_states"] + output["residual"]  # type: ignore[no-any-return]

    def _logits(self, rows: torch.Tensor) -> torch.Tensor:
        return self._model.compute_logits(rows).float()  # type: ignore[no-any-return]

    def _written(self, end_layer: int, *_: Any) -> None:
        if not self._is_decode or end_layer == self.facts.held.end:
            self.wrote(end_layer)

    def _blocks_of(self, request_id: str, part: KvPart) -> torch.Tensor:
        """(tokens,) the block of each token of the part. Raises BadBatchError and UnknownRequestError."""
        table = self._blocks.table(request_id)
        check_part(self.facts, part, request_id, table.reach, self.first_kept_token)
        at = torch.arange(part.first_token, part.first_token + part.tokens) // BLOCK_TOKENS
        return table.blocks[0].units[at, 0]


def _accounts(kv_blocks: int) -> RequestBlocks:
    """Make the account of who holds which block. The memory itself is with the attention layers."""
    return RequestBlocks((WindowGroup(0, (0,)),), BlockPool(kv_blocks))


def _end(part: KvPart) -> int:
    return part.first_layer + part.layers
