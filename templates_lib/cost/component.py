"""The estimated cost of encoders, decoders and generators: the estimate of decoder stages, and the same kernels for
networks without a KV cache."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from templates_lib.cost.estimated import EstimatedCostModel, gpu_of
from templates_lib.cost.kernel_times import FittedKernels
from templates_lib.cost.measured_component import component_key
from templates_lib.cost.network_step import Activations, NetworkStep
from templates_lib.executors.memory_need import ExecutorNeed, rows_of
from templates_lib.graphs.component import (
    ELEMENT_BYTES,
    Component,
    ComponentWork,
    DecoderSpec,
    EncoderSpec,
    GeneratorSpec,
)
from templates_lib.graphs.network import Network
from templates_lib.models.model_spec import in_fp32
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.throughput.memory import NodeMemory, node_memory
from templates_lib.throughput.request_cache import BLOCK_TOKENS
from templates_lib.values.engines import support_of
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Unit

STEP_TOKENS = 2048.0
"""Prompt tokens that a decoder reads in one step, of as many prompts as come near it."""
PROCESSORS = "cpu"
"""Vendor of the GPUs that stand for processors."""
MOST_TOGETHER = 256.0
"""Requests in one step of a decoder (vLLM's `max_num_seqs`)."""


@dataclass(frozen=True, slots=True)
class EstimatedComponentCost:
    """A `ComponentCostModel` over one engine's estimate. No measurement of an encoder or generator is behind it."""

    stages: EstimatedCostModel
    needs: Mapping[str, ExecutorNeed] = field(default_factory=dict, hash=False)
    """`component_key` of encoders and generators that Medley's executors are to run → the memory that these ask for.
    That of all others is estimated."""

    @property
    def source(self) -> str:
        return "estimated"

    @property
    def fingerprint(self) -> str:
        # What executors need goes behind, so that libraries without any keep their names.
        needs = (sorted(self.needs.items()),) if self.needs else ()
        text = msgspec.json.encode(("component/2", self.stages.fingerprint, STEP_TOKENS, MOST_TOGETHER, *needs))
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def seconds(self, component: Component, node: NodeConfig, work: ComponentWork, requests: float) -> float:
        """See `ComponentCostModel`. Raises ValueError for a GPU that is not known."""
        component = self._as_held(component, node)
        match component.spec:
            case EncoderSpec(network=network):
                rows = work.units * network.rows_per_unit * requests
                return self._step(node).seconds(network, Activations(rows, work.items * requests))
            case GeneratorSpec():
                return self._generated(component.spec, node, work, requests)
            case DecoderSpec():
                writes = component.unit is not Unit.PROMPT_TOKEN
                return self._written(component.spec, node, work, requests, writes=writes)

    def held_bytes(self, component: Component, node: NodeConfig, work: ComponentWork) -> float:
        """See `ComponentCostModel`. Raises ValueError for a GPU that is not known."""
        if (need := self._need(component, node)) is not None:
            return need.held_bytes(rows_of(component, work), ELEMENT_BYTES * self._wider(node))
        weights = self._weight_bytes(component, node) / node.gpu_count
        match component.spec:
            case EncoderSpec(network=network):
                return weights + self._wider(node) * _widest(network) * work.units * network.rows_per_unit
            case GeneratorSpec():
                rows = self._wider(node) * _rows(component.spec, work)
                return weights + rows * max(_widest(n) for n in (component.spec.denoiser, component.spec.decoder) if n)
            case DecoderSpec():
                return weights

    def most_requests(
        self, component: Component, node: NodeConfig, work: ComponentWork, reserved_bytes: float
    ) -> float:
        """See `ComponentCostModel`. Raises ValueError for a GPU that is not known."""
        if not isinstance(component.spec, DecoderSpec):
            fits = self.held_bytes(component, node, work) + reserved_bytes <= self._usable_bytes(component, node)
            return 1.0 if fits else 0.0
        whole = self._weight_bytes(component, node)
        spec = self._as_held(component, node).spec
        assert isinstance(spec, DecoderSpec)  # noqa: S101 - it was one before it was widened
        beside = (whole - spec.model.weight_bytes) / node.gpu_count
        memory = self._memory(spec, node, reserved_bytes + beside)
        # Decoders that write nothing hold a prompt while they read it.
        tokens = work.context_tokens + work.units + work.cross_tokens
        free = memory.free_bytes(np.asarray(STEP_TOKENS), np.asarray(1.0))
        blocks = float(memory.kv_blocks(free, BLOCK_TOKENS)[StageRole.ONLY, 0, 0, 0])
        return min(blocks / math.ceil(max(tokens, 1.0) / BLOCK_TOKENS), MOST_TOGETHER)

    def _need(self, component: Component, node: NodeConfig) -> ExecutorNeed | None:
        """Of an executor on a GPU of its own; None: it is estimated."""
        return self.needs.get(component_key(component)) if self.needs and node.gpu_count == 1 else None

    def _usable_bytes(self, component: Component, node: NodeConfig) -> float:
        """Of each GPU. What stands for processors has all of its memory for executors: what else their processes take
        is no part of it."""
        gpu = gpu_of(node, self.stages.gpus)
        is_whole = gpu.vendor == PROCESSORS and self._need(component, node) is not None
        return gpu.memory_bytes * (1.0 if is_whole else support_of(self.stages.engine).usable_share)

    def _wider(self, node: NodeConfig) -> float:
        """Bytes of a weight, of those of 16 bits: processors compute in fp32, which most of them are faster in."""
        return 2.0 if gpu_of(node, self.stages.gpus).vendor == PROCESSORS else 1.0

    def _weight_bytes(self, component: Component, node: NodeConfig) -> float:
        return self._wider(node) * component.weight_bytes

    def _as_held(self, component: Component, node: NodeConfig) -> Component:
        """The component whose decoder, if it is one, has the types that the node computes it in."""
        spec = component.spec
        if not isinstance(spec, DecoderSpec) or self._wider(node) == 1.0:
            return component
        return replace(component, spec=replace(spec, model=in_fp32(spec.model)))

    def _memory(self, spec: DecoderSpec, node: NodeConfig, reserved_bytes: float) -> NodeMemory:
        gpu, layers = gpu_of(node, self.stages.gpus), np.array([spec.model.layers])
        parallel = Parallel(node.gpu_count)
        return node_memory(spec.model, gpu, parallel, layers, support_of(self.stages.engine), reserved_bytes)

    def _step(self, node: NodeConfig) -> NetworkStep:
        gpu = gpu_of(node, self.stages.gpus)
        kernels = FittedKernels.of(gpu, self.stages.coefficients, node)
        return NetworkStep(kernels, self.stages.coefficients.engine(self.stages.engine), node.gpu_count)

    def _generated(self, spec: GeneratorSpec, node: NodeConfig, work: ComponentWork, requests: float) -> float:
        step, rows, items = self._step(node), _rows(spec, work) * requests, work.items * requests
        total = step.seconds(spec.decoder, Activations(rows, items))
        if spec.denoiser is not None:
            passes = spec.passes or work.units / work.items
            one = step.seconds(spec.denoiser, Activations(rows, items, work.context_tokens * requests))
            total += passes * one
        return total

    def _written(
        self, spec: DecoderSpec, node: NodeConfig, work: ComponentWork, requests: float, *, writes: bool
    ) -> float:
        """Prompts are read in steps of their own, then all requests write in one batch."""
        prompt = work.context_tokens if writes else work.units
        together = max(STEP_TOKENS // max(prompt, 1.0), 1.0)
        reads = self._stage(spec, node, prompt=prompt * together, before=(prompt - 1) / 2 + work.cross_tokens)
        total = reads * requests / together
        if not writes:
            return total
        cached = prompt + (work.units - 1) / 2 + work.cross_tokens
        one = self._stage(spec, node, writing=requests, cached=cached)
        if spec.beside is not None:
            one += spec.beside_passes * self._step(node).seconds(spec.beside, Activations(requests, requests))
        return total + work.units * one

    def _stage(
        self,
        spec: DecoderSpec,
        node: NodeConfig,
        *,
        prompt: float = 0.0,
        before: float = 0.0,
        writing: float = 0.0,
        cached: float = 0.0,
    ) -> float:
        figures = (float(spec.model.layers), prompt, max(before, 0.0), writing, cached)
        step = NodeStep(*(np.asarray(figure) for figure in figures))
        return float(self.stages.stage_seconds(spec.model, node, Parallel(node.gpu_count), step, head=True))


def _rows(spec: GeneratorSpec, work: ComponentWork) -> float:
    """Rows of latents or mel frames of one request."""
    return work.item_rows * work.items if work.item_rows else work.units * spec.decoder.rows_per_unit


def _widest(network: Network) -> float:
    """Bytes of the widest activations of a network for each of its rows: what a product writes, as much again that it
    read, and what is carried past it."""
    products = [p for stack in network.stacks for p in stack.products] + list(network.products)
    return ELEMENT_BYTES * max((3 * p.rows * p.columns for p in products), default=0.0)
