"""The estimated cost model: data sheets × fitted efficiencies."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Coefficients, load_coefficients
from templates_lib.cost.kernel_times import FittedKernels
from templates_lib.cost.kernels import send_seconds
from templates_lib.cost.shared_gpu import part_of
from templates_lib.cost.stage_step import StageStep
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, GpuPart, NodeStep, Parallel
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
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
        unpacked = sorted(support_of(self.engine).unpacked.items())
        text += msgspec.json.encode(unpacked) if unpacked else b""
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def evidence(self, gpu: str) -> str:
        """Name the measurements that the numbers of `gpu` rest on, for people."""
        return self.coefficients.gpu(gpu).evidence

    def stage_seconds(
        self,
        model: ModelSpec,
        node: NodeConfig,
        parallel: Parallel,
        step: NodeStep,
        *,
        head: bool,
        part: GpuPart = WHOLE_GPU,
    ) -> Floats:
        """See `StageCostModel`. Raises ValueError for a GPU that `gpus` does not hold.

        What the host does, launches and transfers between GPUs take as long on a part of the GPUs as on all of them.
        """
        gpu = part_of(gpu_of(node, self.gpus), part)
        kernels = FittedKernels.of(gpu, self.coefficients, node)
        overhead, unpacked = self.coefficients.engine(self.engine), support_of(self.engine).unpacked
        return StageStep(gpu, kernels, overhead, unpacked).seconds(model, parallel, step, head)

    def measured_splits(self, model: ModelSpec, node: NodeConfig) -> tuple[Parallel, ...]:
        """See `StageCostModel`."""
        del model, node
        return ()

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

    def hand_off_s_per_byte(self, model: ModelSpec, node: NodeConfig) -> tuple[float, float]:
        """See `StageCostModel`: GPUs compute on."""
        del model, node
        return 0.0, 0.0

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> None:
        """See `StageCostModel`."""
        del model, node


def gpu_of(node: NodeConfig, gpus: Mapping[str, Gpu]) -> Gpu:
    """The GPU of a node. Raises ValueError with the nearest name where `gpus` does not hold it."""
    if node.gpu not in gpus:
        hint = nearest_name(node.gpu, gpus)
        raise ValueError(f"node configuration {node.id!r} names an unknown GPU {node.gpu!r}; {hint}")
    return gpus[node.gpu]


def usable_bytes_per_s(node: NodeConfig) -> float:
    """Bytes per second in one direction; 0 for a node that joins no others."""
    return USABLE_SHARE * node.network_gbps * 1e9 / 8 if node.joins_others else 0.0
