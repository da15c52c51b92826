"""Memory that is left on the GPUs of one node besides the held layers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Floats, Parallel
from templates_lib.throughput.roles import HAS_EMBEDDING, HAS_HEAD
from templates_lib.throughput.splits import expert_shards, kv_shards
from templates_lib.throughput.worst_window import worst_sums
from templates_lib.values.engine_support import ANYTHING, EngineSupport
from templates_lib.values.gpu import Gpu


@dataclass(frozen=True, slots=True, eq=False)
class NodeMemory:
    """Memory of the fullest GPU of a node, and of all KV caches together.

    Arrays have axes (role, variant, layer count, level) and broadcast together.
    """

    model: ModelSpec
    parallel: Parallel
    usable_bytes: float
    weights_bytes: Floats
    """(4, 1, L, 1)"""
    part_layers: Floats
    """(1, 1, L, 1): layers of the largest pipeline part inside the node."""
    workspace_bytes_per_token: float
    logit_bytes: float
    """Of one vocabulary entry of one sampled row."""
    kv_shards: int

    def free_bytes(self, tokens: Floats, sampled_rows: Floats) -> Floats:
        """Return what is left for KV on each GPU when a replica works on `tokens` tokens at once and samples
        `sampled_rows`."""
        logits = np.where(HAS_HEAD, sampled_rows * self.model.vocab_size * self.logit_bytes, 0.0)
        return self.usable_bytes - self.weights_bytes - tokens * self.workspace_bytes_per_token - logits

    def worst_part(self, worst_by_layers: Floats) -> Floats:
        """(L,) worst sums by layer count → (1, 1, L, 1): of the largest part, as one tensor-parallel rank holds it."""
        return worst_by_layers[self.part_layers.astype(np.int64) - 1] / self.kv_shards

    def kv_blocks(self, free_bytes: Floats, block_tokens: int) -> Floats:
        """Blocks of `block_tokens` tokens of all held layers that the whole node has room for."""
        block = block_tokens * self.model.kv_bytes_per_token_per_layer * self.part_layers / self.kv_shards
        return self.parallel.dp * np.floor(np.maximum(free_bytes, 0.0) / block)


def node_memory(
    model: ModelSpec,
    gpu: Gpu,
    parallel: Parallel,
    layers: NDArray[np.int64],
    engine: EngineSupport = ANYTHING,
    reserved_bytes: float = 0.0,
) -> NodeMemory:
    """Memory of a node that holds `layers` (n,) layers of `model`, as `engine` holds it. Weights are cut by tp (experts
    by ep where that is more) and pp, and repeated for every dp replica. `reserved_bytes` of each GPU are others'."""
    part = -(-layers // parallel.pp)
    return NodeMemory(
        model=model,
        parallel=parallel,
        usable_bytes=engine.usable_share * gpu.memory_bytes - reserved_bytes,
        weights_bytes=weights_bytes(model, parallel, layers),
        part_layers=part.astype(np.float64)[None, None, :, None],
        workspace_bytes_per_token=_workspace_bytes_per_token(model, parallel),
        logit_bytes=engine.logit_bytes,
        kv_shards=kv_shards(model, parallel),
    )


def weights_bytes(model: ModelSpec, parallel: Parallel, layers: NDArray[np.int64]) -> Floats:
    """(4, 1, n, 1): what the fullest GPU of a node that holds `layers` (n,) layers has of them, by its role."""
    part = -(-layers // parallel.pp)
    ffn = np.full(model.layers, model.ffn_weight_bytes / (expert_shards(parallel) if model.experts else parallel.tp))
    ffn[: model.dense_layers] = model.dense_ffn_weight_bytes / parallel.tp
    held = worst_sums(_attention_bytes(model, parallel) + ffn)[part - 1][None, None, :, None]
    return held + _end_bytes(model, parallel)


def _attention_bytes(model: ModelSpec, parallel: Parallel) -> float:
    """Of one layer, on one tensor-parallel rank: where ranks are more than KV heads, each has all of one."""
    if model.latent_attention is not None:
        return model.attention_weight_bytes / parallel.tp
    of_keys_and_values = model.kv_heads / (model.attention_heads + model.kv_heads)
    copied = of_keys_and_values * (1 / kv_shards(model, parallel) - 1 / parallel.tp)
    return model.attention_weight_bytes * (1 / parallel.tp + copied)


def _end_bytes(model: ModelSpec, parallel: Parallel) -> Floats:
    """(4, 1, 1, 1): embedding and LM head on the GPU that has most of them."""
    embedding = HAS_EMBEDDING * model.embedding_weight_bytes / parallel.tp
    head = HAS_HEAD * model.head_weight_bytes / parallel.tp
    apart = parallel.pp > 1 and not model.ends_in_each_part
    return np.maximum(embedding, head) if apart or model.tied_embeddings else embedding + head


def _workspace_bytes_per_token(model: ModelSpec, parallel: Parallel) -> float:
    """Activations alive at once: residual, its norm and output, and the widest of attention and feed-forward."""
    attention = (model.attention_heads + 2 * model.kv_heads) * model.head_dim / parallel.tp
    dense = 3 * model.intermediate_size / parallel.tp
    routed = 0.0
    if model.experts is not None:
        width = 3 * model.experts.intermediate_size / (parallel.tp if parallel.ep == 1 else 1)
        routed = model.experts.active * (width + model.hidden_size)
    return model.activation_element_bytes * (4 * model.hidden_size + max(attention, dense, routed))
