"""A step of a stage, composed of the kernels of its layers and what the engine adds to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import EngineOverhead, LayerOverhead
from templates_lib.cost.kernel_times import KernelTimes
from templates_lib.cost.kernels import distinct_experts
from templates_lib.cost.layer_mix import wider_counts, worst_mix
from templates_lib.cost.shard import ExpertShard, LayerShard, Matrix, shard_of
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.engine_support import Unpacking
from templates_lib.values.gpu import Gpu

Floats = NDArray[np.float64]
wider_counts_of = lru_cache(maxsize=256)(wider_counts)


@dataclass(frozen=True, slots=True)
class StageStep:
    """Times the steps of one GPU's shard under one engine."""

    gpu: Gpu
    kernels: KernelTimes
    engine: EngineOverhead
    unpacked: Mapping[str, Unpacking]
    """See `EngineSupport`."""

    def seconds(self, model: ModelSpec, parallel: Parallel, step: NodeStep, head: bool) -> Floats:
        """See `StageCostModel.stage_seconds`."""
        shard = shard_of(model, self.gpu, parallel)
        prompts, requests = (
            per_replica(step.prompt_tokens, parallel.dp),
            per_replica(step.decode_requests, parallel.dp),
        )
        rows = prompts + requests
        layers = np.asarray(step.layers, dtype=np.float64)
        attention = self._attention_of_worst_layers(model, shard, layers, prompts, requests, step)
        ffn = self._ffn_of_worst_layers(model, shard, layers, rows)
        every = self._matrices(shard.projections, shard.attention_format, shard.attention_bytes, rows)
        every = every + self._unpacking(model.attention_dtype or model.dtype, _weights(shard.projections), rows)
        kernels = attention + ffn + layers * every
        transfers = self._between_parts(model, parallel, rows) + layers * self._in_layer(model, shard, parallel, rows)
        if head:
            last = requests + np.minimum(prompts, 1.0)
            kernels = kernels + self._head(model, parallel, last)
            transfers = transfers + self._gather_logits(model, parallel, last)
        return np.asarray(
            self.engine.kernel_scale * kernels + transfers + self._host(model, layers, prompts, requests, parallel)
        )

    def _host(self, model: ModelSpec, layers: Floats, prompts: Floats, requests: Floats, parallel: Parallel) -> Floats:
        """Seconds that the engine adds to the large kernels, per iteration, token and layer."""
        engine, has_prompt = self.engine, np.minimum(prompts, 1.0)
        iteration = engine.step_s + engine.prompt_step_s * has_prompt
        tokens = engine.request_s * requests + engine.prompt_token_s * prompts
        layer = _overhead(engine.layer, model) + _overhead(engine.prompt_layer, model) * has_prompt
        return np.asarray(parallel.pp * iteration + tokens + layers * layer)

    def _attention_of_worst_layers(
        self, model: ModelSpec, shard: LayerShard, layers: Floats, prompts: Floats, requests: Floats, step: NodeStep
    ) -> Floats:
        kinds, counts = wider_counts_of(model.windows)
        index = layers.astype(np.intp)
        total = np.zeros(())
        narrower = np.zeros(())
        for i, window in enumerate(kinds):
            seconds = self._attention(model, shard, window, prompts, requests, step)
            total = total + (seconds - narrower) * counts[i][index]
            narrower = seconds
        return total

    def _attention(
        self, model: ModelSpec, shard: LayerShard, window: int, prompts: Floats, requests: Floats, step: NodeStep
    ) -> Floats:
        """Prompt tokens see what precedes them and themselves, as far as the window or the sparse choice reaches."""
        reach = min(window or np.inf, model.attended_tokens or np.inf)
        before, cached = np.minimum(step.prompt_context + 1.0, reach), np.minimum(step.decode_context + 1.0, reach)
        prefill = self.kernels.prefill_attention(model, shard, prompts, before)
        decode = self.kernels.decode_attention(model, shard, requests, cached)
        return np.asarray(np.where(prompts > 0, prefill, 0.0) + np.where(requests > 0, decode, 0.0))

    def _ffn_of_worst_layers(self, model: ModelSpec, shard: LayerShard, layers: Floats, rows: Floats) -> Floats:
        dense = self._matrices(shard.dense, shard.ffn_format, shard.ffn_bytes, rows)
        dense = dense + self._unpacking(model.dtype, _weights(shard.dense), rows)
        if shard.experts is None:
            return layers * dense
        sparse = self._matrices(shard.shared, shard.ffn_format, shard.ffn_bytes, rows)
        sparse = sparse + self._unpacking(model.dtype, _weights(shard.shared), rows)
        sparse = sparse + self._experts(model, shard, shard.experts, rows)
        return worst_mix(layers, model.dense_layers, model.layers, dense, sparse)

    def _experts(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard, rows: Floats) -> Floats:
        tokens = rows * experts.replicas
        seconds = self.kernels.experts(model, shard, experts, tokens)
        if model.dtype not in self.unpacked:
            return seconds
        visited = distinct_experts(tokens * experts.active / experts.ranks, experts.local)
        weights = visited * experts.matrices * model.hidden_size * experts.width
        return seconds + self._unpacking(model.dtype, weights, rows)

    def _unpacking(self, dtype: str, weights: Floats | float, rows: Floats) -> Floats:
        """Widen weights for a product: a matter of the memory's bandwidth."""
        if dtype not in self.unpacked:
            return np.zeros_like(rows)
        few, many, most_few = self.unpacked[dtype]
        moved = np.where(rows > most_few, many, few) * weights
        return np.asarray(np.minimum(rows, 1.0) * moved / self.gpu.hbm_bytes_per_s)

    def _matrices(self, matrices: tuple[Matrix, ...], compute: str, weight_bytes: float, rows: Floats) -> Floats:
        total = np.zeros_like(rows)
        for matrix in matrices:
            total = total + self.kernels.product(compute, weight_bytes, matrix, rows)
        return total

    def _in_layer(self, model: ModelSpec, shard: LayerShard, parallel: Parallel, rows: Floats) -> Floats:
        """Tensor parallelism adds up the outputs of attention and feed-forward; tokens travel to experts of other
        replicas and back."""
        message, wait = rows * model.hidden_size * model.activation_element_bytes, self.engine.link_wait
        seconds = 2.0 * self.kernels.all_reduce(parallel.tp, message, wait)
        experts = shard.experts
        if experts is not None and experts.replicas > 1:
            copies = min(experts.active, experts.ranks) * (experts.ranks - 1) / experts.ranks
            seconds = seconds + 2.0 * self.kernels.send(experts.ranks, message * copies, wait)
        return seconds

    def _head(self, model: ModelSpec, parallel: Parallel, rows: Floats) -> Floats:
        """LM head over the decoding rows and at least one finished prompt."""
        matrix = Matrix(model.vocab_size / parallel.tp, model.hidden_size)
        return self._matrices((matrix,), "bf16", model.activation_element_bytes, rows)

    def _gather_logits(self, model: ModelSpec, parallel: Parallel, rows: Floats) -> Floats:
        """An all-gather moves half of what an all-reduce of the same array does."""
        logits = rows * model.vocab_size * model.activation_element_bytes / 2
        return self.kernels.all_reduce(parallel.tp, logits, self.engine.link_wait)

    def _between_parts(self, model: ModelSpec, parallel: Parallel, rows: Floats) -> Floats:
        if parallel.pp == 1:
            return np.zeros_like(rows)
        message = rows * model.hidden_size * model.activation_element_bytes
        return (parallel.pp - 1) * self.kernels.send(2, message, self.engine.link_wait)


def _weights(matrices: tuple[Matrix, ...]) -> float:
    return sum(matrix.columns * matrix.depth for matrix in matrices)


def _overhead(layer: LayerOverhead, model: ModelSpec) -> float:
    experts = layer.experts_s if model.experts is not None else 0.0
    return layer.every_s + experts + (layer.latent_s if model.latent_attention is not None else 0.0)


def per_replica(total: Floats, replicas: int) -> Floats:
    """Work of the fullest replica: a single request is not divided."""
    amount = np.asarray(total, dtype=np.float64)
    return np.asarray(np.maximum(amount / replicas, np.minimum(amount, 1.0)))
