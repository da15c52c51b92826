"""One GPU's part of a layer, in the shapes that kernels see."""

from dataclasses import dataclass

from templates_lib.cost.formats import WEIGHT_BYTES, compute_format
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel
from templates_lib.values.gpu import Gpu

WIDENED_LATENT_BYTES = 2.0
"""All heads share the latents, so their kernels compute: an 8-bit cache of them takes less room, not less time."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix as one GPU holds it."""

    columns: float
    depth: float


@dataclass(frozen=True, slots=True)
class ExpertShard:
    local: float
    """Routed experts (or parts of them) on this GPU."""
    active: int
    ranks: int
    """Groups that the experts are spread over (ep)."""
    replicas: int
    """Data-parallel replicas whose tokens meet in this expert group."""
    width: float
    """Width of one expert as far as it is on this GPU."""
    matrices: int


@dataclass(frozen=True, slots=True)
class LayerShard:
    """One GPU's part of a layer under tensor, data and expert parallelism."""

    attention_format: str
    attention_bytes: float
    projections: tuple[Matrix, ...]
    heads: float
    score_width: float
    """Summed width of query·key and score·value per head, prefill."""
    decode_score_width: float
    """The same for decode; wider where the latent cache is attended to directly (absorbed MLA)."""
    kv_bytes_per_token: float
    ffn_format: str
    ffn_bytes: float
    dense: tuple[Matrix, ...]
    shared: tuple[Matrix, ...]
    experts: ExpertShard | None


def shard_of(model: ModelSpec, gpu: Gpu, parallel: Parallel) -> LayerShard:
    """`model`'s layer on one of `parallel`'s GPUs: KV heads are copied where tp exceeds them, MLA latents always."""
    tp, hidden = parallel.tp, model.hidden_size
    latent = model.latent_attention
    attention_dtype = model.attention_dtype or model.dtype
    attention_activation = model.activation_dtype if not model.attention_dtype else "bf16"
    value_dim = latent.value_head_dim if latent else model.head_dim
    router = 2.0 * hidden * model.experts.count if model.experts else 0.0
    weights = (model.attention_weight_bytes - router) / WEIGHT_BYTES[attention_dtype]
    output = float(model.attention_heads * value_dim * hidden)
    if latent:
        decode_width = 2.0 * latent.kv_rank + latent.rope_head_dim
        kv_bytes = (latent.kv_rank + latent.rope_head_dim) * WIDENED_LATENT_BYTES
    else:
        decode_width = 2.0 * model.head_dim
        kv_bytes = 2.0 * max(1.0, model.kv_heads / tp) * model.head_dim * model.kv_element_bytes
    return LayerShard(
        attention_format=compute_format(gpu, attention_dtype, attention_activation),
        attention_bytes=WEIGHT_BYTES[attention_dtype],
        projections=(
            Matrix(max(weights - output, 0.0) / hidden / tp, hidden),
            Matrix(hidden, model.attention_heads * value_dim / tp),
        ),
        heads=model.attention_heads / tp,
        score_width=float(model.head_dim + value_dim),
        decode_score_width=decode_width,
        kv_bytes_per_token=kv_bytes,
        ffn_format=compute_format(gpu, model.dtype, model.activation_dtype),
        ffn_bytes=WEIGHT_BYTES[model.dtype],
        dense=_feed_forward(hidden, model.intermediate_size / tp, model.gated_ffn),
        shared=_feed_forward(hidden, model.experts.shared_intermediate_size / tp, model.gated_ffn)
        if model.experts
        else (),
        experts=_experts(model, parallel),
    )


def _feed_forward(hidden: int, width: float, gated: bool) -> tuple[Matrix, ...]:
    if width == 0:
        return ()
    return (Matrix(width * (2 if gated else 1), hidden), Matrix(hidden, width))


def _experts(model: ModelSpec, parallel: Parallel) -> ExpertShard | None:
    if model.experts is None:
        return None
    replicas = parallel.dp if parallel.ep > 1 else 1
    split = parallel.tp * replicas / parallel.ep
    return ExpertShard(
        local=model.experts.count / parallel.ep,
        active=model.experts.active,
        ranks=parallel.ep,
        replicas=replicas,
        width=model.experts.intermediate_size / split,
        matrices=3 if model.gated_ffn else 2,
    )
