"""The torch engine."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch

from agents.engines.batch import BlockName, StepBatch
from agents.engines.checks import check_batch, check_given, check_new
from agents.engines.errors import BadBatchError, OutOfMemoryError
from agents.engines.grammars import Vocabulary, vocabulary_of
from agents.engines.grid_positions import text_position
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import Lend, Wrote
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput
from agents.engines.torch_engine.copy_stream import CopyStream
from agents.engines.torch_engine.decode_steps import DecodeSteps, has_decode_steps
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_facts import decoder_facts
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.decoder_stage import DecoderStage
from agents.engines.torch_engine.headwise_cache import headwise_cache
from agents.engines.torch_engine.kv_cache import KvCache, window_groups
from agents.engines.torch_engine.kv_transfer import check_part, export_part, import_part, lent_part
from agents.engines.torch_engine.logit_rules import RuledRequests
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.replay import Recorder
from agents.engines.torch_engine.sampler import sample_ends
from agents.engines.torch_engine.shard import WHOLE, Shard
from agents.engines.torch_engine.stage_weights import read_stage
from agents.engines.torch_engine.vocabulary import LanguageHead
from agents.engines.torch_engine.warm_up import warm_up
from agents.kv_pool.lent_pool import LentPool
from agents.transfer.memory import Memory
from agents.weights.checkpoint import Checkpoint
from agents.weights.meter import MeteredCheckpoint


def load_torch_engine(
    checkpoint: Checkpoint,
    held: LayerRange,
    kv_blocks: int,
    dtype: torch.dtype,
    device: torch.device,
    shard: Shard = WHOLE,
    memory_bytes: int | None = None,
    pool: LentPool | None = None,
) -> "TorchEngine":
    """Loads `held` of the model, or `shard`'s part of it, with a KV cache of `kv_blocks` blocks of all held layers.

    `pool`: a KV cache that engines of several models share, head by head, on a CPU, instead of one of `kv_blocks`; the
    facts then name blocks of as many tokens as one of the pool holds. None: it has its own, layer by layer.

    `memory_bytes` is what weights and cache may take of the device, checked before anything is read; None: whatever the
    device gives, which on a CPU may be more than it has. The shards of a stage are each an engine in a process of its
    own; they take the same steps in the same order.

    Raises UnsupportedModelError for an architecture not known, WeightsError for missing or damaged files,
    OutOfMemoryError where weights and cache do not fit, ValueError where the model has no such layers or shards, and
    where its heads do not fill the blocks of a pool.
    """
    checkpoint = decoder_part(checkpoint)
    config = decoder_config(checkpoint.config)
    if held.end > config.layers or held.last != (held.end == config.layers) or held.first != (held.first_layer == 0):
        raise ValueError(f"{held} does not fit a model of {config.layers} layers")
    shard.check(config)
    memory_need(checkpoint, config, held, dtype, shard).check(held, kv_blocks if pool is None else 0, memory_bytes)
    start = time.perf_counter()
    metered = MeteredCheckpoint(checkpoint)
    try:
        stage = read_stage(metered, config, held, dtype, device, shard)
        groups = window_groups(config.windows[held.first_layer : held.end])
        like = torch.empty(0, dtype=dtype, device=device)
        kv_heads = shard.kv_heads(config.kv_heads)
        heads = kv_heads.stop - kv_heads.start
        if pool is None:
            cache = KvCache(groups, kv_blocks, heads, config.head_dim, like, config.encoded_tokens)
        else:
            cache = headwise_cache(config, groups, heads, like, pool)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise OutOfMemoryError(f"{held} with {kv_blocks} KV blocks does not fit {device}: {error}") from error
    facts = decoder_facts(
        "torch",
        config,
        held,
        shard,
        dtype,
        device,
        kv_blocks,
        metered.reading.stored_bytes,
        time.perf_counter() - start,
    )
    decode = None
    if has_decode_steps(device) and not config.is_whisper:  # attention to an encoder is not part of such steps
        # Sums over ranks are not recorded: they were not tried so.
        decode = DecodeSteps(stage, cache, Recorder(device, records=shard.size == 1 and not stage.waits))
    vocabulary = vocabulary_of(checkpoint.path, config.vocab_size)
    facts = replace(facts, obeys_grammars=vocabulary is not None, shares_kv=cache.shares, verifies_drafts=True)
    if pool is not None:
        units = len(cache.keys) // cache.block_units
        facts = replace(facts, block_tokens=cache.block_tokens, kv_blocks=units)
    engine = TorchEngine(facts, stage, cache, vocabulary, decode)
    if decode is not None and shard.exchange is None:  # replicas would have to take part
        warm_up(engine)
    return engine


class TorchEngine:
    """A StageEngine whose layers are plain torch operations."""

    def __init__(
        self,
        facts: StageFacts,
        stage: DecoderStage,
        cache: KvCache,
        vocabulary: Vocabulary | None = None,
        decode: DecodeSteps | None = None,
    ) -> None:
        """`decode`: runs steps of single tokens; None: they are steps like others."""
        self.facts = facts
        self._stage: DecoderStage | None = stage
        self._decode = decode
        self._cache = cache
        self._copies = CopyStream(facts.device)
        self._ruled = RuledRequests(vocabulary)
        self.wrote: Wrote = lambda _end_layer: None

    @property
    def free_kv_blocks(self) -> int:
        return self._cache.free_blocks

    def kv_blocks_short(self, batch: StepBatch) -> int:
        return self._cache.blocks_short(batch)

    @torch.inference_mode()
    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        stage = self._open()
        if not batch.requests and stage.exchange is not None:
            stage.assist(rows.new_empty(0, self.facts.hidden_size, dtype=self.facts.dtype, device=self.facts.device))
            return StepOutput()
        check_batch(self.facts, batch, rows, self._cache.tokens, self._cache.drafted)
        check_given(self.facts, batch, self._cache.attending)
        if stage.head is not None:
            self._ruled.begin(batch, self.facts.device)
        self._cache.grow(batch)
        marks, held = self._copies.begin([request.id for request in batch.requests]), self.facts.held
        is_decode = all(request.tokens == 1 for request in batch.requests)  # over soon: told of as a whole

        def wrote(layers: int) -> None:
            if not is_decode or layers == held.layers:
                marks.add()
                self.wrote(held.first_layer + layers)

        rows = rows.to(self.facts.device)
        if is_decode and self._decode is not None and _is_plain(batch):
            made = self._decode.run(batch, rows)
            wrote(held.layers)
            self._cache.advance(batch)
            if stage.head is None:
                return StepOutput(hidden=made.clone())  # it is sent while the next step is computed
            # The head is part of such a step.
            return StepOutput(samples=sample_ends(batch, made, _same, self._ruled))
        hidden = stage.forward(batch, rows, self._cache, wrote)
        self._cache.advance(batch)
        if stage.head is None:
            return StepOutput(hidden=hidden)
        samples = sample_ends(batch, hidden, stage.head, self._ruled)
        return StepOutput(samples=samples, rows=_handed_out(batch, hidden, stage.head))

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        self._cache.free(request_id, kept)
        self._ruled.forget(request_id)
        self._copies.forget(request_id)

    def drop(self, blocks: Sequence[BlockName]) -> None:
        self._cache.drop(blocks)

    def reserve(self, request_id: str, tokens: int) -> None:
        check_new(request_id, tokens, self._cache.tokens(request_id))
        self._cache.reserve(request_id, tokens)
        self._copies.wait_for_steps()

    def check_kv(self, request_id: str, part: KvPart) -> None:
        """Raises what export and import of the part would."""
        check_part(self._cache, self.facts, request_id, part)

    @torch.inference_mode()
    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        layers = part.first_layer + part.layers - self.facts.held.first_layer
        with self._copies.copying(request_id, layers):
            export_part(self._cache, self.facts, request_id, part, out)

    @torch.inference_mode()
    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        with self._copies.copying():
            import_part(self._cache, self.facts, request_id, part, tensor)

    @property
    def lent_kv(self) -> Lend | None:
        return self._lent if self._cache.keys.is_cpu and self._cache.lends else None

    def first_kept_token(self, layer: int, tokens: int) -> int:
        group, _ = self._cache.place_of[layer - self.facts.held.first_layer]
        return self._cache.groups[group].first_kept_token(tokens)

    def _lent(self, request_id: str, part: KvPart) -> Memory:
        pieces = lent_part(self._cache, self.facts, request_id, part)
        return lambda: nullcontext(pieces)

    def close(self) -> None:
        self._stage = None
        self._decode = None
        self._cache = KvCache(self._cache.groups, 0, 1, 1, torch.empty(0))

    def _open(self) -> DecoderStage:
        if self._stage is None:
            raise BadBatchError("the engine is closed")
        return self._stage


def _is_plain(batch: StepBatch) -> bool:
    """Tell whether each token of a step of single tokens is one of text that nothing but the next is wanted of."""
    requests = batch.requests
    return batch.given.is_empty and not any(
        request.hands_out_rows or text_position(request.grids, request.position) is None for request in requests
    )


def _handed_out(batch: StepBatch, hidden: torch.Tensor, head: LanguageHead) -> torch.Tensor | None:
    """Hidden states behind the last norm, of the requests that asked for them."""
    if not any(request.hands_out_rows for request in batch.requests):
        return None
    parts = torch.split(hidden, [request.tokens for request in batch.requests])
    asked = [part for part, request in zip(parts, batch.requests, strict=True) if request.hands_out_rows]
    return head.norm(torch.cat(asked))


def _same(logits: torch.Tensor) -> torch.Tensor:
    return logits
