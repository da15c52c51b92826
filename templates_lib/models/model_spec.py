"""A decoder model, as far as cost, memory and placement need to know it."""

from dataclasses import dataclass, replace

from templates_lib.values.stored_weights import StoredWeights


@dataclass(frozen=True, slots=True)
class ExpertSpec:
    """A mixture-of-experts feed-forward block."""

    count: int
    active: int
    """Routed experts that one token visits."""
    intermediate_size: int
    shared_intermediate_size: int = 0
    """Summed width of the experts that every token visits."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2 paper, section 2.1): what is cached is one latent vector a token."""

    kv_rank: int
    rope_head_dim: int
    nope_head_dim: int
    value_head_dim: int
    query_rank: int = 0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Architecture and stored size of one model revision.

    Weight sizes are bytes as served: of a checkpoint by itself those that it stores (quantised weights count their
    quantised size, scales included), of a served model those that its engine holds (`held_by`). `windows` has
    one entry a layer: the sliding window in tokens, 0 for full attention. A layer of linear attention keeps a state of
    fixed size instead of a KV cache: its window is the number of tokens whose KV cache would be as large as the state.
    """

    id: str
    revision: str
    layers: int
    hidden_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    """Width of the dense feed-forward block; 0 where every layer is a mixture of experts."""
    vocab_size: int
    tied_embeddings: bool
    dtype: str
    """Data type of weights as served: bf16, fp8, mxfp4, int4, …"""
    activation_dtype: str
    kv_dtype: str
    attention_weight_bytes: float
    """Attention, norms and router of one layer."""
    ffn_weight_bytes: float
    """The whole feed-forward block of one layer, all experts included."""
    embedding_weight_bytes: float
    """The token embedding; the LM head has the same size and is counted apart unless tied."""
    windows: tuple[int, ...]
    experts: ExpertSpec | None = None
    latent_attention: LatentAttention | None = None
    dense_layers: int = 0
    """Leading layers that are dense although `experts` is set (`intermediate_size` is theirs)."""
    dense_ffn_weight_bytes: float = 0.0
    """Feed-forward bytes of each of those leading layers."""
    gated_ffn: bool = True
    max_context_tokens: int = 0
    attention_dtype: str = ""
    """Data type of the attention weights where it is not `dtype` (gpt-oss: bf16 beside mxfp4 experts)."""
    attended_tokens: int = 0
    """Sparse attention (DeepSeek-V3.2, GLM-5): a token attends to at most this many of the cached tokens; 0: to all."""
    ends_in_each_part: bool = False
    """As held: all parts that a node cuts its layers into have token embedding and LM head (`EngineSupport`)."""
    stored: StoredWeights | None = None
    """The checkpoint; None where nobody said it. Nothing is planned by it once the bytes above are those held."""

    @property
    def head_weight_bytes(self) -> float:
        """The LM head as a matrix to be read and held by the last stage (a copy of the embedding when tied)."""
        return self.embedding_weight_bytes

    @property
    def weight_bytes(self) -> float:
        """Everything that a whole replica holds: what ρ is measured against."""
        moe_layers = self.layers - self.dense_layers
        ffn = moe_layers * self.ffn_weight_bytes + self.dense_layers * self.dense_ffn_weight_bytes
        head = 0.0 if self.tied_embeddings else self.head_weight_bytes
        return self.layers * self.attention_weight_bytes + ffn + self.embedding_weight_bytes + head

    @property
    def activation_element_bytes(self) -> float:
        """Bytes of one element of hidden states between stages: 16 bits, whatever the products are computed in, or
        fp32."""
        return 4.0 if self.activation_dtype == "fp32" else 2.0

    @property
    def kv_element_bytes(self) -> float:
        return 1.0 if self.kv_dtype.startswith("fp8") else 4.0 if self.kv_dtype == "fp32" else 2.0

    @property
    def kv_bytes_per_token_per_layer(self) -> float:
        if self.latent_attention is not None:
            latent = self.latent_attention
            return (latent.kv_rank + latent.rope_head_dim) * self.kv_element_bytes
        return 2 * self.kv_heads * self.head_dim * self.kv_element_bytes


def in_fp32(model: ModelSpec) -> ModelSpec:
    """A model of 16-bit weights as it is served in fp32: weights, activations and KV cache take twice the room."""
    return replace(
        model,
        dtype="fp32",
        activation_dtype="fp32",
        kv_dtype="fp32",
        attention_weight_bytes=2 * model.attention_weight_bytes,
        ffn_weight_bytes=2 * model.ffn_weight_bytes,
        embedding_weight_bytes=2 * model.embedding_weight_bytes,
        dense_ffn_weight_bytes=2 * model.dense_ffn_weight_bytes,
    )
