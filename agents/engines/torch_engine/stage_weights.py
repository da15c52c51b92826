"""Reads the held layers of a decoder out of a checkpoint, and nothing else."""

from dataclasses import dataclass

import torch

from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.attention import Attention
from agents.engines.torch_engine.decoder_config import DecoderConfig
from agents.engines.torch_engine.decoder_layer import DecoderLayer, FeedForward
from agents.engines.torch_engine.decoder_stage import DecoderStage
from agents.engines.torch_engine.expert_weights import gpt_oss_experts, qwen_experts
from agents.engines.torch_engine.experts import swiglu
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear, Projection, packed, packs
from agents.engines.torch_engine.norm import Norm
from agents.engines.torch_engine.shard import WHOLE, Shard
from agents.engines.torch_engine.vocabulary import Embedding, LanguageHead, StoredRows, VocabularyPart
from agents.engines.torch_engine.whisper_layers import whisper_layer
from agents.weights.checkpoint import Checkpoint

EMBEDDING = "model.embed_tokens.weight"
NORM = "model.norm"
POSITIONS = "model.embed_positions.weight"
HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, eq=False)
class GatedMlp:
    """down(silu(gate(x)) × up(x)) (Shazeer 2020, SwiGLU)."""

    gate_up: Projection
    """Rows of gate, then of up: one product instead of two."""
    down: Projection

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden)"""
        gate, up = self.gate_up(rows).chunk(2, dim=-1)
        return self.down(swiglu(gate, up))


def layer_prefix(layer: int) -> str:
    """Return the prefix of the names of a layer's tensors."""
    return f"model.layers.{layer}."


def read_stage(
    checkpoint: Checkpoint,
    config: DecoderConfig,
    held: LayerRange,
    dtype: torch.dtype,
    device: torch.device,
    shard: Shard = WHOLE,
) -> DecoderStage:
    """Reads `held`, or `shard`'s part of it.

    Raises WeightsError naming the file or tensor that is missing, damaged or of another shape.
    """
    reader = LayerReader(checkpoint, "", shard, dtype, device, config.weight_layout)
    matrix = (config.vocab_size, config.hidden_size)
    held_tokens = shard.vocabulary(config.vocab_size)
    part = VocabularyPart(config.vocab_size, held_tokens.start, held_tokens.stop - held_tokens.start, shard.total)
    embedding, projection = _embedding(reader, config, held, part)
    head = None
    if held.last:
        norm: Norm
        if config.is_whisper:
            norm = reader.layer_norm(NORM, config.hidden_size, config.norm_epsilon)
        else:
            norm = reader.norm(NORM, config.hidden_size, config.norm_epsilon, config.family == "gpt_oss")
        head = LanguageHead(norm, projection or packed(reader.tokens(HEAD, matrix)), part)
    layers = tuple(_layer(reader.under(layer_prefix(i)), config) for i in range(held.first_layer, held.end))
    learned = None
    if held.first and config.is_whisper:
        learned = reader.tensor(POSITIONS, (config.max_context_tokens, config.hidden_size))
    return DecoderStage(embedding, layers, head, config.rope, dtype, shard.exchange, learned)


def _embedding(
    reader: LayerReader, config: DecoderConfig, held: LayerRange, part: VocabularyPart
) -> tuple[Embedding | None, Linear | None]:
    """The embedding, and the head's product where one matrix is both: of that there is one copy. On a processor it is
    laid out for products, which makes a step of few requests a tenth shorter, and the rows of tokens are looked up in
    the mapped checkpoint."""
    matrix = (config.vocab_size, config.hidden_size)
    if not held.first:
        return None, packed(reader.tokens(EMBEDDING, matrix)) if held.last and config.tied_embeddings else None
    table = reader.tokens(EMBEDDING, matrix)
    if not held.last or not config.tied_embeddings:
        return Embedding(table, part), None
    if packs(table):
        return Embedding(StoredRows(reader.checkpoint, EMBEDDING, part.first, reader.dtype), part), packed(table)
    return Embedding(table, part), Linear(table)


def _layer(reader: LayerReader, config: DecoderConfig) -> DecoderLayer:
    if config.is_whisper:
        return whisper_layer(reader, config)
    late_cast = config.family == "gpt_oss"
    norms = [
        reader.norm(name, config.hidden_size, config.norm_epsilon, late_cast)
        for name in ("input_layernorm", "post_attention_layernorm")
    ]
    attention = _attention(reader.under("self_attn."), config)
    feed_forward = _feed_forward(reader.under("mlp."), config)
    return DecoderLayer(norms[0], attention, norms[1], feed_forward, reader.shard.total, reader.shard.exchange)


def _attention(reader: LayerReader, config: DecoderConfig) -> Attention:
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    names = ("qkv_proj",) if config.fused_projections else ("q_proj", "k_proj", "v_proj")
    head_norms = [
        reader.norm(name, config.head_dim, config.norm_epsilon, late_cast=False) if config.head_norms else None
        for name in ("q_norm", "k_norm")
    ]
    held = reader.shard.kv_heads(config.kv_heads)
    kept = slice(held.start * config.head_dim, held.stop * config.head_dim)
    parts = ((queries, reader.shard.span(queries)), (keys, kept), (keys, kept))
    return Attention(
        query_key_value=reader.into(names, parts, config.hidden_size, config.query_key_value_bias),
        output=reader.out_of("o_proj", config.hidden_size, queries, config.output_bias),
        heads=config.heads // reader.shard.size,
        kv_heads=held.stop - held.start,
        head_dim=config.head_dim,
        query_norm=head_norms[0],
        key_norm=head_norms[1],
        sinks=reader.tensor("sinks", (config.heads,))[reader.shard.span(config.heads)] if config.sinks else None,
    )


def _feed_forward(reader: LayerReader, config: DecoderConfig) -> FeedForward:
    if config.experts is not None:
        read = gpt_oss_experts if config.family == "gpt_oss" else qwen_experts
        return read(reader, config.experts, config.hidden_size)
    names = ("gate_up_proj",) if config.fused_projections else ("gate_proj", "up_proj")
    gate_up = reader.into(names, (reader.cut(config.ffn_width),) * 2, config.hidden_size)
    return GatedMlp(gate_up, reader.out_of("down_proj", config.hidden_size, config.ffn_width))
