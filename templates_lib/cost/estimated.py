"""The estimated cost model: data sheets × fitted efficiencies."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import (
    Coefficients,
    EngineOverhead,
    GpuCoefficients,
    Kernel,
    LayerOverhead,
    LinkGroups,
    load_coefficients,
)
from templates_lib.cost.formats import peak_flops
from templates_lib.cost.kernels import (
    all_reduce_seconds,
    decode_attention_seconds,
    experts_seconds,
    gemm_seconds,
    prefill_attention_seconds,
    send_seconds,
)
from templates_lib.cost.layer_mix import wider_counts, worst_mix
from templates_lib.cost.shard import ExpertShard, LayerShard, Matrix, shard_of
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.gpu import Gpu
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
PCIE_CEILING_GBPS = 1100.0
"""Links of a node faster than this are NVLink or Infinity Fabric; PCIe 6 x16 ends at 1024 Gbit/s."""
wider_counts_of = lru_cache(maxsize=256)(wider_counts)


USABLE_SHARE = 0.7
"""Share of the line rate that activations and KV caches get in each direction: transports reach less than the line
rate, and weights, control messages and other tenants take theirs. An assumption; no measurement backs it."""


def estimated_cost_model(gpus: Mapping[str, Gpu], engine: str = "vllm") -> "EstimatedCostModel":
    """The estimate with the shipped coefficients for `gpus` (by name) under `engine`. Raises ValueError for an engine
    without coefficients."""
    coefficients = load_coefficients()
    coefficients.engine(engine)
    return EstimatedCostModel(gpus, engine, coefficients)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatedCostModel:
    """A `StageCostModel`: non-decreasing in layers, tokens, requests and contexts; no coefficient knows a model."""

    gpus: Mapping[str, Gpu]
    engine: str
    coefficients: Coefficients

    @property
    def source(self) -> str:
        return "estimated"

    @property
    def fingerprint(self) -> str:
        cards = msgspec.json.encode(sorted((name, gpu) for name, gpu in self.gpus.items()))
        text = f"estimated/{self.engine}/{self.coefficients.fingerprint}/".encode() + cards
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def evidence(self, gpu: str) -> str:
        """Name the measurements that the numbers of `gpu` rest on, for people."""
        return self.coefficients.gpu(gpu).evidence

    def stage_seconds(
        self, model: ModelSpec, node: NodeConfig, parallel: Parallel, step: NodeStep, *, head: bool
    ) -> Floats:
        """See `StageCostModel`. Raises ValueError for a GPU that `gpus` does not hold."""
        device = _Device.of(self._gpu(node), self.coefficients, self.coefficients.engine(self.engine), node)
        return device.step_seconds(model, parallel, step, head)

    def hop_seconds(self, model: ModelSpec, node: NodeConfig, tokens: Floats) -> Floats:
        """Activations of `tokens` tokens over the node's network; infinite where it cannot be joined to others."""
        message = np.asarray(tokens, dtype=np.float64) * model.hidden_size * model.activation_element_bytes
        if not node.joins_others:
            return np.full_like(message, np.inf)
        return send_seconds(self.coefficients.network, node.network_gbps * 1e9 / 8, message)

    def transfer_bytes_per_s(self, model: ModelSpec, node: NodeConfig) -> float:
        """See `templates_lib.throughput.network`: a share of the line rate, for every model."""
        del model
        return usable_bytes_per_s(node)

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> None:
        """See `StageCostModel`."""
        del model, node

    def _gpu(self, node: NodeConfig) -> Gpu:
        if node.gpu not in self.gpus:
            hint = nearest_name(node.gpu, self.gpus)
            raise ValueError(f"node configuration {node.id!r} names an unknown GPU {node.gpu!r}; {hint}")
        return self.gpus[node.gpu]


@dataclass(frozen=True, slots=True)
class _Device:
    """One GPU with its link to its peers: times the kernels of a shard."""

    gpu: Gpu
    own: GpuCoefficients
    engine: EngineOverhead
    links: LinkGroups
    link_bytes_per_s: float

    @classmethod
    def of(cls, gpu: Gpu, coefficients: Coefficients, engine: EngineOverhead, node: NodeConfig) -> "_Device":
        likely = coefficients.nvlink if node.intra_node_gbps > PCIE_CEILING_GBPS else coefficients.pcie
        links = coefficients.links.get(gpu.name, likely)
        return cls(gpu, coefficients.gpu(gpu.name), engine, links, node.intra_node_gbps * 1e9 / 8)

    def step_seconds(self, model: ModelSpec, parallel: Parallel, step: NodeStep, head: bool) -> Floats:
        shard = shard_of(model, self.gpu, parallel)
        prompts, requests = (
            _per_replica(step.prompt_tokens, parallel.dp),
            _per_replica(step.decode_requests, parallel.dp),
        )
        rows = prompts + requests
        layers = np.asarray(step.layers, dtype=np.float64)
        attention = self._attention_of_worst_layers(model, shard, layers, prompts, requests, step)
        ffn = self._ffn_of_worst_layers(model, shard, layers, rows)
        every = self._matrices(shard.projections, shard.attention_format, shard.attention_bytes, rows)
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
        peak, bandwidth = peak_flops(self.gpu, "bf16"), self.gpu.hbm_bytes_per_s
        before, cached = np.minimum(step.prompt_context + 1.0, reach), np.minimum(step.decode_context + 1.0, reach)
        kv = shard.kv_bytes_per_token
        prefill = prefill_attention_seconds(
            self.own.prefill_attention, peak, bandwidth, prompts, before, shard.heads, shard.score_width, kv
        )
        decode = decode_attention_seconds(
            self.own.decode_attention, peak, bandwidth, requests, cached, shard.heads, shard.decode_score_width, kv
        )
        return np.asarray(np.where(prompts > 0, prefill, 0.0) + np.where(requests > 0, decode, 0.0))

    def _ffn_of_worst_layers(self, model: ModelSpec, shard: LayerShard, layers: Floats, rows: Floats) -> Floats:
        dense = self._matrices(shard.dense, shard.ffn_format, shard.ffn_bytes, rows)
        if shard.experts is None:
            return layers * dense
        sparse = self._matrices(shard.shared, shard.ffn_format, shard.ffn_bytes, rows)
        sparse = sparse + self._experts(model, shard, shard.experts, rows)
        return worst_mix(layers, model.dense_layers, model.layers, dense, sparse)

    def _experts(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard, rows: Floats) -> Floats:
        pairs = rows * experts.replicas * experts.active / experts.ranks
        kernel = _kernel(self.own.experts, shard.ffn_format)
        peak, bandwidth = peak_flops(self.gpu, shard.ffn_format), self.gpu.hbm_bytes_per_s
        return experts_seconds(
            kernel,
            peak,
            bandwidth,
            rows * experts.replicas,
            pairs,
            experts.local,
            model.hidden_size,
            experts.width,
            experts.matrices,
            shard.ffn_bytes,
        )

    def _matrices(self, matrices: tuple[Matrix, ...], compute: str, weight_bytes: float, rows: Floats) -> Floats:
        kernel = _kernel(self.own.gemm, compute)
        peak, bandwidth = peak_flops(self.gpu, compute), self.gpu.hbm_bytes_per_s
        total = np.zeros_like(rows)
        for matrix in matrices:
            total = total + gemm_seconds(kernel, peak, bandwidth, rows, matrix.columns, matrix.depth, weight_bytes)
        return total

    def _in_layer(self, model: ModelSpec, shard: LayerShard, parallel: Parallel, rows: Floats) -> Floats:
        """Tensor parallelism adds up the outputs of attention and feed-forward; tokens travel to experts of other
        replicas and back."""
        message = rows * model.hidden_size * model.activation_element_bytes
        seconds = 2.0 * all_reduce_seconds(
            self.links, self.link_bytes_per_s, parallel.tp, message, self.engine.link_wait
        )
        experts = shard.experts
        if experts is not None and experts.replicas > 1:
            copies = min(experts.active, experts.ranks) * (experts.ranks - 1) / experts.ranks
            seconds = seconds + 2.0 * send_seconds(
                self.links.among(experts.ranks), self.link_bytes_per_s, message * copies, self.engine.link_wait
            )
        return seconds

    def _head(self, model: ModelSpec, parallel: Parallel, rows: Floats) -> Floats:
        """LM head over the decoding rows and at least one finished prompt."""
        matrix = Matrix(model.vocab_size / parallel.tp, model.hidden_size)
        return self._matrices((matrix,), "bf16", model.activation_element_bytes, rows)

    def _gather_logits(self, model: ModelSpec, parallel: Parallel, rows: Floats) -> Floats:
        """An all-gather moves half of what an all-reduce of the same array does."""
        logits = rows * model.vocab_size * model.activation_element_bytes / 2
        return all_reduce_seconds(self.links, self.link_bytes_per_s, parallel.tp, logits, self.engine.link_wait)

    def _between_parts(self, model: ModelSpec, parallel: Parallel, rows: Floats) -> Floats:
        if parallel.pp == 1:
            return np.zeros_like(rows)
        message = rows * model.hidden_size * model.activation_element_bytes
        return (parallel.pp - 1) * send_seconds(
            self.links.among(2), self.link_bytes_per_s, message, self.engine.link_wait
        )


def _overhead(layer: LayerOverhead, model: ModelSpec) -> float:
    experts = layer.experts_s if model.experts is not None else 0.0
    return layer.every_s + experts + (layer.latent_s if model.latent_attention is not None else 0.0)


def _per_replica(total: Floats, replicas: int) -> Floats:
    """Work of the fullest replica: a single request is not divided."""
    amount = np.asarray(total, dtype=np.float64)
    return np.asarray(np.maximum(amount / replicas, np.minimum(amount, 1.0)))


def _kernel(kernels: dict[str, Kernel], compute: str) -> Kernel:
    """int8 products are as efficient as the card's bf16 ones until somebody measures them."""
    return kernels.get(compute, kernels["bf16"])


def usable_bytes_per_s(node: NodeConfig) -> float:
    """Bytes per second in one direction; 0 for a node that joins no others."""
    return USABLE_SHARE * node.network_gbps * 1e9 / 8 if node.joins_others else 0.0
