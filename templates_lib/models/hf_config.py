"""Reads the architecture of a model from the config.json that Hugging Face publishes with its weights.

Known: decoders with grouped-query or multi-head latent attention, sliding windows, sparse and linear attention, dense
or mixture-of-experts feed-forward blocks, quantised weights. Anything else raises UnsupportedModelError, which names
the key and why.
"""

from typing import Any

from templates_lib.models.attention_pattern import AttentionPattern, attention_of
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.models.model_spec import ExpertSpec, ModelSpec
from templates_lib.models.quantization import Quantization, WeightFormat, quantization_of
from templates_lib.values.stored_weights import StoredMatrices, StoredWeights

LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model")
EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts")
ACTIVE_KEYS = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "top_k_experts")
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
UNGATED = frozenset(
    ("gpt2", "gpt_neox", "gptj", "opt", "falcon", "bloom", "mpt", "phi", "starcoder2", "gpt_bigcode", "nemotron")
)
UNKNOWN_PARTS = {
    "ssm_cfg": "state-space layers",
    "ssm_state_size": "state-space layers",
    "mamba_d_state": "state-space layers",
    "hybrid_override_pattern": "state-space layers between the attention layers",
    "layers_block_type": "layers of more than one kind",
    "linear_attn_config": "Kimi delta attention",
    "block_configs": "layers that each have their own shape",
    "ffn_config": "a nested feed-forward description",
    "compress_ratios": "attention over compressed tokens",
    "sparse_attention_config": "block-sparse attention",
    "global_head_dim": "other head sizes in full-attention layers",
    "attention_other_setting": "other head counts in windowed layers",
    "routed_expert_hidden_size": "experts in a latent space",
    "num_kv_shared_layers": "layers that share their KV cache",
    "hidden_size_per_layer_input": "per-layer embeddings",
}
MAX_LAYERS = 2048


def model_from_hf_config(config: dict[str, Any], id: str, revision: str) -> ModelSpec:  # noqa: A002
    """The model that `config` (a parsed config.json) describes, named `id` at `revision`.

    Weight bytes follow from the matrices' shapes and the quantisation; the final norm, multi-token-prediction heads and
    vision towers are not part of them. Raises UnsupportedModelError with the key that cannot be expressed.
    """
    root = Fields.of(config, "")
    fields = _text_part(root)
    _refuse_unknown_parts(fields)
    layers = fields.integer(_one_of(fields, LAYER_KEYS), low=1, high=MAX_LAYERS)
    hidden = fields.integer(_one_of(fields, HIDDEN_KEYS), low=1, high=1 << 18)
    attention = attention_of(fields, layers, hidden)
    latent = attention.latent
    formats = quantization_of(fields if fields.table("quantization_config") else root, layers)
    gated = fields.text("model_type", "") not in UNGATED
    experts, dense_layers = _experts(fields, layers)
    width = _dense_width(fields, hidden, experts, dense_layers)
    dense_bytes = _ffn_weights(fields, hidden, width, gated) * formats.dense_ffn.bytes_per_weight
    router_bytes = 2.0 * hidden * experts.count if experts else 0.0
    main = formats.experts if experts else formats.dense_ffn
    vocab = fields.integer("vocab_size", low=1, high=1 << 24)
    return ModelSpec(
        id=id,
        revision=revision,
        layers=layers,
        hidden_size=hidden,
        attention_heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        intermediate_size=width,
        vocab_size=vocab,
        tied_embeddings=root.flag("tie_word_embeddings", fields.flag("tie_word_embeddings", default=False)),
        dtype=main.dtype,
        activation_dtype=main.activation_dtype,
        kv_dtype=formats.kv_dtype,
        attention_weight_bytes=_attention_bytes(attention, formats.attention, hidden) + router_bytes,
        ffn_weight_bytes=_expert_bytes(fields, hidden, experts, formats, gated) if experts else dense_bytes,
        embedding_weight_bytes=2.0 * vocab * hidden,
        windows=attention.windows,
        experts=experts,
        latent_attention=latent,
        dense_layers=dense_layers,
        dense_ffn_weight_bytes=dense_bytes if dense_layers else 0.0,
        gated_ffn=gated,
        max_context_tokens=_context(fields),
        attention_dtype="" if formats.attention.dtype == main.dtype else formats.attention.dtype,
        attended_tokens=attention.attended_tokens,
        stored=StoredWeights(
            family=fields.text("model_type", ""),
            attention=_stored(formats.attention, attention.matrix_weights),
            dense_ffn=_stored(formats.dense_ffn, 0.0 if width == 0 else _ffn_weights(fields, hidden, width, gated)),
            shared_experts=_stored(formats.shared_experts, _shared_weights(hidden, experts, gated)),
            experts=_stored(formats.experts, _expert_weights(hidden, experts, gated)),
            head_size=latent.kv_rank + latent.rope_head_dim if latent else attention.head_dim,
            is_latent=latent is not None,
            mixes_windows=len(set(attention.windows)) > 1,
        ),
    )


def _stored(stored: WeightFormat, weights: float) -> StoredMatrices:
    return StoredMatrices(stored.dtype, weights, stored.bytes_per_weight)


def _text_part(root: Fields) -> Fields:
    """Multi-modal configs keep the decoder under `text_config`."""
    inner = root.table("text_config") or root.table("llm_config")
    fields = root if inner is None else Fields(inner, "text_config.")
    if root.flag("is_encoder_decoder", default=False):
        raise UnsupportedModelError("is_encoder_decoder", "encoder-decoder models are not served")
    return fields


def _refuse_unknown_parts(fields: Fields) -> None:
    for key, what in UNKNOWN_PARTS.items():
        if fields.raw.get(key):
            raise UnsupportedModelError(fields.prefix + key, f"{what} cannot be expressed")
    for key in ("num_key_value_heads", "num_attention_heads", "head_dim"):
        other = fields.raw.get(f"swa_{key}")
        if other is not None and other != fields.raw.get(key):
            raise UnsupportedModelError(f"{fields.prefix}swa_{key}", "windowed layers of another shape are not known")


def _one_of(fields: Fields, keys: tuple[str, ...]) -> str:
    return fields.name_of(*keys) or keys[0]


def _context(fields: Fields) -> int:
    name = fields.name_of(*CONTEXT_KEYS)
    return fields.integer(name, low=1, high=1 << 30) if name else 0


def _experts(fields: Fields, layers: int) -> tuple[ExpertSpec | None, int]:
    """The mixture of experts and the number of leading dense layers."""
    count_key = fields.name_of(*EXPERT_KEYS)
    count = fields.integer(count_key, high=1 << 16) if count_key else 0
    if count <= 1:
        return None, 0
    active = fields.integer(_one_of(fields, ACTIVE_KEYS), low=1, high=count)
    width_key = fields.name_of("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    width = fields.integer(width_key or "moe_intermediate_size", low=1)
    shared = fields.integer("n_shared_experts", fields.integer("num_shared_experts", 0, high=4096), high=4096) * width
    for key in ("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"):
        shared = fields.integer(key, shared)
    if fields.text("model_type", "").startswith("llama4"):
        shared = width  # Llama 4 has one shared expert as wide as a routed one, and says so nowhere
    return ExpertSpec(count, active, width, shared), _leading_dense_layers(fields, layers)


def _leading_dense_layers(fields: Fields, layers: int) -> int:
    for key in ("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step"):
        value = fields.raw.get(key)
        if isinstance(value, list):
            return _leading(tuple(i for i, kind in enumerate(fields.integers(key)) if kind == 0), fields.prefix + key)
        if fields.integer(key, 1) > 1:
            why = "dense layers between the expert layers: only leading ones are known"
            raise UnsupportedModelError(fields.prefix + key, why)
    dense = _leading(fields.integers("mlp_only_layers"), fields.prefix + "mlp_only_layers")
    return min(max(dense, fields.integer("first_k_dense_replace", 0, high=MAX_LAYERS)), layers)


def _leading(positions: tuple[int, ...], key: str) -> int:
    if sorted(positions) != list(range(len(positions))):
        raise UnsupportedModelError(key, "names dense layers that are not the leading ones: that cannot be expressed")
    return len(positions)


def _dense_width(fields: Fields, hidden: int, experts: ExpertSpec | None, dense_layers: int) -> int:
    if experts is not None and dense_layers == 0:
        return 0
    name = fields.name_of("dense_intermediate_size", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    if name is None and fields.name_of("n_embd"):
        return 4 * hidden  # GPT-2's default
    return fields.integer(name or "intermediate_size", low=1)


def _ffn_weights(fields: Fields, hidden: int, width: int, gated: bool) -> float:
    matrices = 3 if gated else 2
    biases = ((matrices - 1) * width + hidden) if fields.flag("mlp_bias", default=not gated) else 0
    return matrices * hidden * width + biases


def _expert_weights(hidden: int, experts: ExpertSpec | None, gated: bool) -> float:
    return float(experts.count * (3 if gated else 2) * hidden * experts.intermediate_size) if experts else 0.0


def _shared_weights(hidden: int, experts: ExpertSpec | None, gated: bool) -> float:
    return float((3 if gated else 2) * hidden * experts.shared_intermediate_size) if experts else 0.0


def _expert_bytes(fields: Fields, hidden: int, experts: ExpertSpec, formats: Quantization, gated: bool) -> float:
    routed = _expert_weights(hidden, experts, gated) * formats.experts.bytes_per_weight
    shared = _shared_weights(hidden, experts, gated) * formats.shared_experts.bytes_per_weight
    if fields.text("model_type", "") == "gpt_oss":  # its experts have biases, kept in bf16
        routed += 2.0 * experts.count * (2 * experts.intermediate_size + hidden)
    return routed + shared


def _attention_bytes(attention: AttentionPattern, stored: WeightFormat, hidden: int) -> float:
    norms = 2.0 * 2 * hidden  # two norms a layer, bf16
    return attention.matrix_weights * stored.bytes_per_weight + 2.0 * attention.vector_weights + norms
