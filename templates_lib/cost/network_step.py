"""A pass of a network without a KV cache on one GPU of a tensor-parallel group, composed of its kernels."""

from dataclasses import dataclass

import numpy as np

from templates_lib.cost.coefficients import EngineOverhead
from templates_lib.cost.formats import peak_flops
from templates_lib.cost.kernel_times import FittedKernels
from templates_lib.cost.kernels import prefill_attention_seconds
from templates_lib.cost.shard import Matrix
from templates_lib.graphs.component import ELEMENT_BYTES
from templates_lib.graphs.network import Network, Product, Rows, Stack

FORMAT = "bf16"


@dataclass(frozen=True, slots=True)
class Activations:
    """Rows of one pass, of all requests in it."""

    rows: float
    items: float
    context: float = 0.0
    """Rows of the text that steers a denoiser."""

    def of(self, product: Product) -> float:
        """Rows that a product is applied to."""
        match product.of:
            case Rows.OWN:
                return self.rows * product.rows
            case Rows.CONTEXT:
                return self.context * product.rows
            case Rows.ITEM:
                return self.items * product.rows


@dataclass(frozen=True, slots=True)
class NetworkStep:
    """Times passes. Products are those of the fitted GEMM kernels, convolutions too: what they read of their input is
    counted once a tap, so that wide ones on few channels come out too slow. Attention is the kernel that was fitted on
    causal prompts, over all keys of the window or item, not over half of them."""

    kernels: FittedKernels
    engine: EngineOverhead
    tensor_parallel: int

    def seconds(self, network: Network, pass_of: Activations) -> float:
        """Seconds of one pass, with what the engine adds to it."""
        kernels = transfers = 0.0
        layers = 0
        for stack in network.stacks:
            layers += stack.layers
            inside = sum(self._product(product, pass_of) for product in stack.products)
            kernels += stack.layers * (inside + self._attention(stack, pass_of))
            transfers += stack.layers * self._all_reduces(stack, pass_of)
        kernels += sum(self._product(product, pass_of) for product in network.products)
        layer = self.engine.layer.every_s + self.engine.prompt_layer.every_s
        host = self.engine.step_s + self.engine.prompt_step_s + layers * layer
        return self.engine.kernel_scale * kernels + transfers + host

    def _product(self, product: Product, pass_of: Activations) -> float:
        rows = pass_of.of(product)
        if rows == 0:
            return 0.0
        matrix = Matrix(product.columns / self.tensor_parallel, product.depth)
        return product.count * float(self.kernels.product(FORMAT, ELEMENT_BYTES, matrix, np.asarray(rows)))

    def _attention(self, stack: Stack, pass_of: Activations) -> float:
        queries = pass_of.rows + pass_of.context
        keys = queries / max(pass_of.items, 1.0)
        if stack.window_rows:
            keys = min(keys, float(stack.window_rows))
        heads = stack.heads / self.tensor_parallel
        gpu, kernel = self.kernels.gpu, self.kernels.own.prefill_attention
        written = 2 * heads * stack.head_dim * ELEMENT_BYTES
        return float(prefill_attention_seconds(
            kernel, peak_flops(gpu, FORMAT), gpu.hbm_bytes_per_s, np.asarray(queries), np.asarray(keys), heads,
            2.0 * stack.head_dim, written,
        ))  # fmt: skip

    def _all_reduces(self, stack: Stack, pass_of: Activations) -> float:
        """Attention and feed-forward outputs are added up over the group."""
        message = (pass_of.rows + pass_of.context) * stack.heads * stack.head_dim * ELEMENT_BYTES
        wait = self.engine.link_wait
        return 2.0 * float(self.kernels.all_reduce(self.tensor_parallel, np.asarray(message), wait))
