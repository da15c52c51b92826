"""Shape of the attention block: heads, latent compression, and which layers see how far back."""

from dataclasses import dataclass

from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.models.model_spec import LatentAttention

HEAD_KEYS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
STATE_BYTES = 4
"""Linear attention keeps its state in fp32 (vLLM and SGLang, `mamba_ssm_dtype`)."""
PATTERN_OF_FAMILY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}
"""Every n-th layer of these families is full although older configs do not say so (their modelling code)."""


@dataclass(frozen=True, slots=True)
class AttentionPattern:
    heads: int
    kv_heads: int
    head_dim: int
    matrix_weights: float
    """Weights of the projections, mean over layers."""
    vector_weights: float
    """Biases, norms of heads and sinks: never quantised."""
    windows: tuple[int, ...]
    latent: LatentAttention | None
    attended_tokens: int


def attention_of(fields: Fields, layers: int, hidden: int) -> AttentionPattern:
    """Reads the attention block. Raises UnsupportedModelError where heads or layer kinds make no sense."""
    heads = fields.integer(fields.name_of(*HEAD_KEYS) or HEAD_KEYS[0], low=1, high=4096)
    kinds = fields.texts("layer_types", 4096)
    if kinds and len(kinds) != layers:
        raise UnsupportedModelError(f"{fields.prefix}layer_types", f"has {len(kinds)} entries for {layers} layers")
    attended = fields.integer("index_topk", 0)
    if fields.name_of("kv_lora_rank"):
        return _latent(fields, layers, hidden, heads, attended)
    if fields.raw.get("head_dim") is None and hidden % heads:
        raise UnsupportedModelError(f"{fields.prefix}head_dim", f"is missing and {hidden} is no multiple of {heads}")
    head_dim = fields.integer("head_dim", hidden // heads, low=1, high=4096)
    kv_heads = _kv_heads(fields, heads)
    queries, keys = heads * head_dim, kv_heads * head_dim
    gate = queries if fields.flag("attn_output_gate", default=False) else 0
    full = hidden * (2 * queries + gate + 2 * keys)
    linear_layers = sum(kind == "linear_attention" for kind in kinds)
    linear, state_tokens = _linear(fields, hidden, 2.0 * 2 * keys) if linear_layers else (0.0, 0)
    mean = (full * (layers - linear_layers) + linear * linear_layers) / layers
    vectors = _vectors(fields, hidden, heads, head_dim, queries + 2 * keys)
    windows = _windows(fields, layers, kinds, state_tokens)
    return AttentionPattern(heads, kv_heads, head_dim, mean, vectors, windows, None, attended)


def _kv_heads(fields: Fields, heads: int) -> int:
    if fields.flag("multi_query", default=False) and not fields.flag("new_decoder_architecture", default=False):
        return 1
    name = fields.name_of("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    kv_heads = fields.integer(name, low=1, high=4096) if name else heads
    if heads % kv_heads:
        raise UnsupportedModelError(f"{fields.prefix}{name}", f"{heads} heads are no multiple of {kv_heads}")
    return kv_heads


def _latent(fields: Fields, layers: int, hidden: int, heads: int, attended: int) -> AttentionPattern:
    """DeepSeek-V2 paper, section 2.1: queries and keys are made from low-rank latents."""
    latent = LatentAttention(
        kv_rank=fields.integer("kv_lora_rank", low=1),
        rope_head_dim=fields.integer("qk_rope_head_dim", low=0),
        nope_head_dim=fields.integer("qk_nope_head_dim", low=1),
        value_head_dim=fields.integer("v_head_dim", low=1),
        query_rank=fields.integer("q_lora_rank", 0),
    )
    head_dim = latent.nope_head_dim + latent.rope_head_dim
    queries = heads * head_dim
    query = latent.query_rank * (hidden + queries) if latent.query_rank else hidden * queries
    down = hidden * (latent.kv_rank + latent.rope_head_dim)
    up = latent.kv_rank * heads * (latent.nope_head_dim + latent.value_head_dim)
    index_heads, index_dim = fields.integer("index_n_heads", 0), fields.integer("index_head_dim", 0)
    indexer = latent.query_rank * index_heads * index_dim + hidden * (index_dim + index_heads) if attended else 0
    weights = query + down + up + heads * latent.value_head_dim * hidden + indexer
    windows = (0,) * layers
    return AttentionPattern(
        heads, heads, head_dim, weights, latent.kv_rank + latent.query_rank, windows, latent, attended
    )


def _linear(fields: Fields, hidden: int, kv_bytes_per_token: float) -> tuple[float, int]:
    """Projections of a gated delta-rule layer (Qwen3-Next) and the tokens whose KV cache is as large as its state."""
    key_dim = fields.integer("linear_key_head_dim", low=1, high=4096)
    value_dim = fields.integer("linear_value_head_dim", low=1, high=4096)
    keys = fields.integer("linear_num_key_heads", low=1, high=4096) * key_dim
    value_heads = fields.integer("linear_num_value_heads", low=1, high=4096)
    values = value_heads * value_dim
    weights = hidden * (2 * keys + 2 * values + 2 * value_heads) + values * hidden
    state = value_heads * key_dim * value_dim * STATE_BYTES
    return weights, max(1, round(state / kv_bytes_per_token))


def _vectors(fields: Fields, hidden: int, heads: int, head_dim: int, outputs: int) -> float:
    family = fields.text("model_type", "")
    biased = fields.flag("attention_bias", default=family in ("qwen2", "qwen2_moe"))
    norms = 2 * head_dim if family.startswith("qwen3") else 0
    extra = hidden + heads if family == "gpt_oss" else 0  # output bias and attention sinks
    return (outputs if biased else 0) + norms + extra


def _windows(fields: Fields, layers: int, kinds: tuple[str, ...], state_tokens: int) -> tuple[int, ...]:
    window = fields.integer("sliding_window", 0, high=1 << 30) if fields.flag("use_sliding_window", default=True) else 0
    if kinds:
        chunk = fields.integer("attention_chunk_size", 0, high=1 << 30)
        known = {
            "full_attention": 0,
            "sliding_attention": window,
            "chunked_attention": chunk,
            "linear_attention": state_tokens,
        }
        for kind in kinds:
            if kind not in known:
                raise UnsupportedModelError(
                    f"{fields.prefix}layer_types", f"{kind[:40]!r} is not known: {', '.join(known)}"
                )
        return tuple(known[kind] for kind in kinds)
    family = fields.text("model_type", "")
    hybrid = fields.integers("hybrid_layer_pattern")
    if len(hybrid) == layers:  # a list for each layer says more than any pattern
        return tuple(window if kind else 0 for kind in hybrid)
    if window == 0:
        return (0,) * layers
    if family == "gpt_oss":
        return tuple(window if i % 2 == 0 else 0 for i in range(layers))
    if family.startswith("qwen2") and fields.name_of("max_window_layers"):
        first = fields.integer("max_window_layers", high=1 << 16)
        return tuple(window if i >= first else 0 for i in range(layers))
    pattern = fields.integer("sliding_window_pattern", PATTERN_OF_FAMILY.get(family, 0), high=1 << 16)
    return tuple(0 if pattern and (i + 1) % pattern == 0 else window for i in range(layers))
