"""Seconds of kernels by NVIDIA's measured tables, never better than the data sheet of the GPU allows."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Kernel
from templates_lib.cost.formats import peak_flops
from templates_lib.cost.kernel_tables import KernelTables, Shaped, kernel_tables
from templates_lib.cost.kernel_times import FittedKernels
from templates_lib.cost.kernels import (
    decode_attention_seconds,
    experts_seconds,
    gemm_seconds,
    prefill_attention_seconds,
)
from templates_lib.cost.log_grid import Curve, Surface, filled
from templates_lib.cost.shard import ExpertShard, LayerShard, Matrix, shard_of
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Parallel
from templates_lib.values.gpu import Gpu

Floats = NDArray[np.float64]
IDEAL = Kernel(compute=1.0, memory=1.0, launch_s=0.0)
"""A kernel that does what the data sheet says. Its smooth maximum is above both bounds of the roofline."""
PRODUCTS = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"}
"""Compute format → data type of the tables; `fp8_block` was timed with a launch by the host in it."""
EXPERTS = {
    ("bf16", "bf16"): ("bfloat16",),
    ("fp16", "bf16"): ("bfloat16",),
    ("fp8", "fp8"): ("fp8_block", "fp8"),
    ("nvfp4", "fp4"): ("nvfp4",),
    ("mxfp4", "fp4"): ("w4a8_mxfp4_mxfp8",),
    ("mxfp4", "dequantised"): ("w4a16_mxfp4",),
    ("int4", "dequantised"): ("int4_wo",),
}
"""(weights, compute format) → data types of the tables; engines take the faster of several."""
CACHES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8"}
FARTHEST = float(np.log(2.0))
"""Heads and KV heads of a GPU may together be this far (sum of log ratios) from those that were timed."""
TOKENS = 2.0 ** (np.arange(41) / 2)


class NotMeasuredError(LookupError):
    """A kernel that a model needs was not timed on the GPU."""


@dataclass
class TableKernels:
    """`KernelTimes` from tables. What no table has (transfers between two GPUs) is `otherwise`'s.

    Every method raises NotMeasuredError for a kernel that was not timed.
    """

    gpu: Gpu
    system: str
    framework: str
    """Names of the tables; they are read when the first kernel is asked for."""
    _curves: dict[object, Curve | Surface] = field(default_factory=dict)

    def at(self, otherwise: FittedKernels) -> "PlacedKernels":
        """The same on a node, with its links."""
        return PlacedKernels(self, otherwise)

    @property
    def tables(self) -> KernelTables:
        return kernel_tables(self.system, self.framework)

    @cached_property
    def _products(self) -> dict[str, tuple[Floats, Floats, Floats, Floats]]:
        whole = {}
        for dtype, (m, n, k, seconds) in self.tables.products.items():
            bound = np.broadcast_to(m[:, None, None] * n[:, None] * k, seconds.shape)
            whole[dtype] = (m, n, k, filled(seconds, bound, (1, 2, 0)))
        return whole

    def product_curve(self, compute: str, weight_bytes: float, matrix: Matrix) -> Curve:
        """Seconds over rows of a product with one matrix, between the four nearest that were timed."""
        key = (compute, weight_bytes, matrix)
        if key not in self._curves:
            self._curves[key] = self._product_curve(compute, weight_bytes, matrix)
        return self._curves[key]  # type: ignore[return-value]

    def _product_curve(self, compute: str, weight_bytes: float, matrix: Matrix) -> Curve:
        dtype = PRODUCTS.get(compute, "")
        if dtype not in self._products:
            raise NotMeasuredError(f"products in {compute} of {self.framework}")
        m, n, k, seconds = self._products[dtype]
        columns, depth = np.clip(matrix.columns, n[0], n[-1]), np.clip(matrix.depth, k[0], k[-1])
        found = np.stack([Surface(np.log(n), np.log(k), np.log(each)).at(columns, depth) for each in seconds])
        bound = self.product_bound(compute, weight_bytes, matrix, m)
        nearest = self.product_bound(compute, weight_bytes, Matrix(float(columns), float(depth)), m)
        return Curve.through(m, np.maximum(found * bound / nearest, bound))

    def product_bound(self, compute: str, weight_bytes: float, matrix: Matrix, rows: Floats) -> Floats:
        peak = peak_flops(self.gpu, compute)
        return gemm_seconds(IDEAL, peak, self.gpu.hbm_bytes_per_s, rows, matrix.columns, matrix.depth, weight_bytes)

    def experts_curve(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard) -> Curve:
        """Seconds over all tokens that meet in the expert group."""
        if (spec := model.experts) is None:
            raise ValueError(f"{model.id} has no experts")
        split = spec.intermediate_size / experts.width
        key = (model.dtype, shard.ffn_format, model.hidden_size, spec, split, experts.ranks)
        if key not in self._curves:
            sizes = (model.hidden_size, spec.intermediate_size, spec.active, spec.count, round(split), experts.ranks)
            types = EXPERTS.get((model.dtype, shard.ffn_format), ())
            timed = [t for name in types if (t := self.tables.experts.get((name, *sizes)))]
            if not timed or split != round(split):
                hidden, width, active, count, tp, ep = sizes
                raise NotMeasuredError(
                    f"{count} {model.dtype} experts of {hidden} x {width}, {active} active, cut by {tp} and over {ep}"
                )
            curves = [Curve.through(each.x, each.seconds) for each in timed]
            tokens = np.unique(np.concatenate([each.x for each in timed]))
            fastest = np.min([self._experts_at(curve, model, shard, experts, tokens) for curve in curves], axis=0)
            self._curves[key] = Curve.through(tokens, fastest)
        return self._curves[key]  # type: ignore[return-value]

    def _experts_at(
        self, curve: Curve, model: ModelSpec, shard: LayerShard, experts: ExpertShard, tokens: Floats
    ) -> Floats:
        bound = self.experts_bound(model, shard, experts, tokens)
        nearest = self.experts_bound(model, shard, experts, curve.within(tokens))
        return np.maximum(curve.at(tokens) * np.maximum(1.0, bound / nearest), bound)

    def experts_bound(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard, tokens: Floats) -> Floats:
        """Routing without preference: no expert is read that no token visits."""
        pairs = tokens * experts.active / experts.ranks
        return experts_seconds(
            IDEAL, peak_flops(self.gpu, shard.ffn_format), self.gpu.hbm_bytes_per_s, tokens, pairs, experts.local,
            model.hidden_size, experts.width, experts.matrices, shard.ffn_bytes,
        )  # fmt: skip

    def prefill_surface(self, model: ModelSpec, shard: LayerShard) -> Surface:
        """Seconds over new tokens and the keys that each attends to in the mean: prompts of twice as many tokens, at
        once as many as the tokens make. Part of a prompt takes as long as a whole one of as many products."""
        key = ("prefill", model.kv_dtype, model.head_dim, shard.heads, shard.kv_bytes_per_token)
        if key not in self._curves:
            timed, like = self._nearest(self.tables.prefill, model, shard)
            keys = np.unique((timed.y + 1) / 2)
            lengths, single = 2 * keys - 1, timed.x == 1
            alone = Curve.through(timed.y[single], timed.seconds[single])
            rows = []
            for length in lengths:
                whole = timed.y == length
                curve = Curve.through(timed.x[whole] * length, timed.seconds[whole])
                many = curve.at(TOKENS) * np.maximum(1.0, TOKENS / curve.ends[1])
                rows.append(np.where(length > TOKENS, alone.at(np.sqrt(TOKENS * length)), many))
            mean = np.broadcast_to(keys, (len(TOKENS), len(keys)))
            ours, theirs = (self.prefill_bound(s, TOKENS[:, None], mean) for s in (shard, like))
            self._curves[key] = Surface.over(TOKENS, keys, np.maximum(np.stack(rows, axis=1) * ours / theirs, ours))
        return self._curves[key]  # type: ignore[return-value]

    def prefill_bound(self, shard: LayerShard, tokens: Floats, keys: Floats) -> Floats:
        peak, bandwidth = peak_flops(self.gpu, "bf16"), self.gpu.hbm_bytes_per_s
        return prefill_attention_seconds(
            IDEAL, peak, bandwidth, tokens, keys, shard.heads, shard.score_width, shard.kv_bytes_per_token
        )

    def decode_surface(self, model: ModelSpec, shard: LayerShard) -> Surface:
        """Seconds over requests and cached tokens."""
        key = ("decode", model.kv_dtype, model.head_dim, shard.heads, shard.kv_bytes_per_token)
        if key not in self._curves:
            timed, like = self._nearest(self.tables.decode, model, shard)
            requests, i = np.unique(timed.x, return_inverse=True)
            keys, j = np.unique(timed.y, return_inverse=True)
            seconds = np.full((len(requests), len(keys)), np.nan)
            seconds[i, j] = timed.seconds
            ours, theirs = (self.decode_bound(s, requests[:, None], keys) for s in (shard, like))
            whole = filled(seconds, theirs, (0, 1)) * ours / theirs
            self._curves[key] = Surface.over(requests, keys, np.maximum(whole, ours))
        return self._curves[key]  # type: ignore[return-value]

    def decode_bound(self, shard: LayerShard, requests: Floats, keys: Floats) -> Floats:
        peak, bandwidth = peak_flops(self.gpu, "bf16"), self.gpu.hbm_bytes_per_s
        return decode_attention_seconds(
            IDEAL, peak, bandwidth, requests, keys, shard.heads, shard.decode_score_width, shard.kv_bytes_per_token
        )

    def _nearest(
        self, tables: dict[tuple[str, int, int, int], Shaped], model: ModelSpec, shard: LayerShard
    ) -> tuple[Shaped, LayerShard]:
        """The table of the most alike heads, and `shard` as if it had those."""
        dtype = CACHES.get(model.kv_dtype, "")
        per_head = 2.0 * model.head_dim * model.kv_element_bytes
        kv_heads = shard.kv_bytes_per_token / per_head
        near = {
            key: abs(np.log(key[2] / shard.heads)) + abs(np.log(key[3] / kv_heads))
            for key in tables
            if key[:2] == (dtype, model.head_dim)
        }
        if not near or min(near.values()) > FARTHEST:
            raise NotMeasuredError(
                f"attention of {shard.heads:g} heads and {kv_heads:g} KV heads of {model.head_dim} over a "
                f"{model.kv_dtype} cache"
            )
        best = min(near, key=lambda key: (near[key], key))
        return tables[best], replace(shard, heads=float(best[2]), kv_bytes_per_token=best[3] * per_head)

    def all_reduce_curve(self, peers: int) -> Curve:
        """Seconds over bytes."""
        key = ("all-reduce", peers)
        if key not in self._curves:
            timed = self.tables.all_reduce.get(peers)
            if timed is None:
                raise NotMeasuredError(f"all-reduce among {peers} GPUs")
            self._curves[key] = Curve.through(timed.x, timed.seconds)
        return self._curves[key]  # type: ignore[return-value]

    def missing(self, model: ModelSpec, parallel: Parallel) -> str:
        """The first kernel that `model` needs under a split and that was not timed; empty where all were."""
        if model.latent_attention is not None:
            return "multi-head latent attention"
        if model.attended_tokens:
            return "sparse attention"
        shard = shard_of(model, self.gpu, parallel)
        try:
            for matrix in shard.projections:
                self.product_curve(shard.attention_format, shard.attention_bytes, matrix)
            for matrix in (*shard.dense, *shard.shared):
                self.product_curve(shard.ffn_format, shard.ffn_bytes, matrix)
            self.product_curve("bf16", model.activation_element_bytes, Matrix(model.vocab_size, model.hidden_size))
            self.prefill_surface(model, shard)
            self.decode_surface(model, shard)
            if shard.experts is not None:
                self.experts_curve(model, shard, shard.experts)
            if parallel.tp > 1:
                self.all_reduce_curve(parallel.tp)
        except NotMeasuredError as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class PlacedKernels:
    """`KernelTimes` of a GPU in a node."""

    own: TableKernels
    otherwise: FittedKernels

    def product(self, compute: str, weight_bytes: float, matrix: Matrix, rows: Floats) -> Floats:
        curve = self.own.product_curve(compute, weight_bytes, matrix)
        bound = self.own.product_bound(compute, weight_bytes, matrix, rows)
        nearest = self.own.product_bound(compute, weight_bytes, matrix, curve.within(rows))
        return _bounded(curve.at(rows), bound, nearest)

    def experts(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard, tokens: Floats) -> Floats:
        curve = self.own.experts_curve(model, shard, experts)
        bound = self.own.experts_bound(model, shard, experts, tokens)
        return _bounded(curve.at(tokens), bound, self.own.experts_bound(model, shard, experts, curve.within(tokens)))

    def prefill_attention(self, model: ModelSpec, shard: LayerShard, tokens: Floats, keys: Floats) -> Floats:
        surface = self.own.prefill_surface(model, shard)
        bound = self.own.prefill_bound(shard, tokens, keys)
        return _bounded(surface.at(tokens, keys), bound, self.own.prefill_bound(shard, *surface.within(tokens, keys)))

    def decode_attention(self, model: ModelSpec, shard: LayerShard, requests: Floats, keys: Floats) -> Floats:
        surface = self.own.decode_surface(model, shard)
        bound = self.own.decode_bound(shard, requests, keys)
        return _bounded(
            surface.at(requests, keys), bound, self.own.decode_bound(shard, *surface.within(requests, keys))
        )

    def all_reduce(self, peers: int, message_bytes: Floats, wait: float) -> Floats:
        """Latency is the time of the smallest message; the node's links bound the rest."""
        if peers <= 1:
            return np.zeros_like(message_bytes)
        curve = self.own.all_reduce_curve(peers)
        traffic = 2.0 * (peers - 1) / peers / self.otherwise.link_bytes_per_s
        base = _bounded(curve.at(message_bytes), traffic * message_bytes, traffic * curve.within(message_bytes))
        return np.asarray(base + (wait - 1.0) * np.exp(curve.log_seconds[0]))

    def send(self, peers: int, message_bytes: Floats, wait: float) -> Floats:
        return self.otherwise.send(peers, message_bytes, wait)


def _bounded(seconds: Floats, bound: Floats, nearest: Floats) -> Floats:
    """What was measured, as efficient beyond the table as at its edge (`nearest`: the bound there)."""
    return np.asarray(np.maximum(seconds * np.maximum(1.0, bound / nearest), bound))
