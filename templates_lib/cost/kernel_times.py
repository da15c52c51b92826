"""Seconds of the kernels of one GPU: the port that steps are composed of, and the fitted formulas behind it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Coefficients, GpuCoefficients, Kernel, LinkGroups
from templates_lib.cost.formats import peak_flops
from templates_lib.cost.kernels import (
    all_reduce_seconds,
    decode_attention_seconds,
    experts_seconds,
    gemm_seconds,
    prefill_attention_seconds,
    send_seconds,
)
from templates_lib.cost.shard import ExpertShard, LayerShard, Matrix
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
PCIE_CEILING_GBPS = 1100.0
"""Links of a node faster than this are NVLink or Infinity Fabric; PCIe 6 x16 ends at 1024 Gbit/s."""


class KernelTimes(Protocol):
    """Seconds of single kernels of one GPU among its peers. Arrays broadcast; every time is non-decreasing in them."""

    def product(self, compute: str, weight_bytes: float, matrix: Matrix, rows: Floats) -> Floats:
        """`rows` activations times `matrix`, in the `compute` format, weights stored in `weight_bytes` each."""
        ...

    def experts(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard, tokens: Floats) -> Floats:
        """The routed experts of a layer over all `tokens` that meet in the expert group."""
        ...

    def prefill_attention(self, model: ModelSpec, shard: LayerShard, tokens: Floats, keys: Floats) -> Floats:
        """`tokens` new tokens over `keys` keys each in the mean."""
        ...

    def decode_attention(self, model: ModelSpec, shard: LayerShard, requests: Floats, keys: Floats) -> Floats:
        """One new token of each of `requests` over `keys` cached ones."""
        ...

    def all_reduce(self, peers: int, message_bytes: Floats, wait: float) -> Floats:
        """One all-reduce; `wait`: latency inside an engine over latency alone."""
        ...

    def send(self, peers: int, message_bytes: Floats, wait: float) -> Floats:
        """A transfer to one of `peers` GPUs of the node."""
        ...


@dataclass(frozen=True, slots=True)
class FittedKernels:
    """`KernelTimes` by formulas: the data sheet times fitted efficiencies."""

    gpu: Gpu
    own: GpuCoefficients
    links: LinkGroups
    link_bytes_per_s: float

    @classmethod
    def of(cls, gpu: Gpu, coefficients: Coefficients, node: NodeConfig) -> "FittedKernels":
        likely = coefficients.nvlink if node.intra_node_gbps > PCIE_CEILING_GBPS else coefficients.pcie
        links = coefficients.links.get(gpu.name, likely)
        return cls(gpu, coefficients.gpu(gpu.name), links, node.intra_node_gbps * 1e9 / 8)

    def product(self, compute: str, weight_bytes: float, matrix: Matrix, rows: Floats) -> Floats:
        kernel, peak = _kernel(self.own.gemm, compute), peak_flops(self.gpu, compute)
        return gemm_seconds(kernel, peak, self.gpu.hbm_bytes_per_s, rows, matrix.columns, matrix.depth, weight_bytes)

    def experts(self, model: ModelSpec, shard: LayerShard, experts: ExpertShard, tokens: Floats) -> Floats:
        return experts_seconds(
            _kernel(self.own.experts, shard.ffn_format),
            peak_flops(self.gpu, shard.ffn_format),
            self.gpu.hbm_bytes_per_s,
            tokens,
            tokens * experts.active / experts.ranks,
            experts.local,
            model.hidden_size,
            experts.width,
            experts.matrices,
            shard.ffn_bytes,
        )

    def prefill_attention(self, model: ModelSpec, shard: LayerShard, tokens: Floats, keys: Floats) -> Floats:
        del model
        peak, bandwidth = peak_flops(self.gpu, "bf16"), self.gpu.hbm_bytes_per_s
        return prefill_attention_seconds(
            self.own.prefill_attention, peak, bandwidth, tokens, keys, shard.heads, shard.score_width,
            shard.kv_bytes_per_token,
        )  # fmt: skip

    def decode_attention(self, model: ModelSpec, shard: LayerShard, requests: Floats, keys: Floats) -> Floats:
        del model
        peak, bandwidth = peak_flops(self.gpu, "bf16"), self.gpu.hbm_bytes_per_s
        return decode_attention_seconds(
            self.own.decode_attention, peak, bandwidth, requests, keys, shard.heads, shard.decode_score_width,
            shard.kv_bytes_per_token,
        )  # fmt: skip

    def all_reduce(self, peers: int, message_bytes: Floats, wait: float) -> Floats:
        return all_reduce_seconds(self.links, self.link_bytes_per_s, peers, message_bytes, wait)

    def send(self, peers: int, message_bytes: Floats, wait: float) -> Floats:
        return send_seconds(self.links.among(peers), self.link_bytes_per_s, message_bytes, wait)


def _kernel(kernels: dict[str, Kernel], compute: str) -> Kernel:
    """int8 products are as efficient as the card's bf16 ones until somebody measures them."""
    return kernels.get(compute, kernels["bf16"])
