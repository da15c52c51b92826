"""The kernel-based cost model: NVIDIA's measured kernels, composed as the estimate is, with the same engine numbers."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from templates_lib.cost.coefficients import Coefficients, load_coefficients
from templates_lib.cost.estimated import EstimatedCostModel, gpu_of
from templates_lib.cost.kernel_tables import FRAMEWORKS, NOT_INSTALLED, SYSTEMS, installed_release
from templates_lib.cost.kernel_times import FittedKernels
from templates_lib.cost.stage_step import StageStep
from templates_lib.cost.table_kernels import TableKernels
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, GpuPart, NodeStep, Parallel
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig

KERNELS = "kernels"


def kernel_cost_model(gpus: Mapping[str, Gpu], engine: str = "vllm") -> "KernelCostModel":
    """The kernel-based model for those of `gpus` (by name) whose kernels were timed, under `engine`.

    Raises ValueError for an engine without coefficients, LookupError where `aiconfigurator-core` is not installed.
    """
    coefficients = load_coefficients()
    coefficients.engine(engine)
    if not installed_release():
        raise LookupError(NOT_INSTALLED)
    framework = FRAMEWORKS.get(engine, engine)
    timed = {name: TableKernels(gpu, SYSTEMS[name], framework) for name, gpu in gpus.items() if name in SYSTEMS}
    return KernelCostModel(gpus, engine, coefficients, timed)


@dataclass(frozen=True, slots=True, eq=False)
class KernelCostModel:
    """A `StageCostModel`: non-decreasing in layers, tokens, requests and contexts; no kernel beats the data sheet.

    What the engine adds to its kernels is the estimate's: no deployment was ever fitted with the times of tables.
    """

    gpus: Mapping[str, Gpu]
    engine: str
    coefficients: Coefficients
    timed: Mapping[str, TableKernels]
    """GPU → its kernels."""

    @property
    def source(self) -> str:
        return KERNELS

    @property
    def fingerprint(self) -> str:
        tables = sorted((name, timed.system, timed.framework) for name, timed in self.timed.items())
        text = msgspec.json.encode([KERNELS, self._estimate.fingerprint, installed_release(), tables])
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    @property
    def _estimate(self) -> EstimatedCostModel:
        return EstimatedCostModel(self.gpus, self.engine, self.coefficients)

    def missing(self, model: ModelSpec, node: NodeConfig, parallel: Parallel) -> str:
        """What was not timed of what `model` needs on `node` under a split; empty where times can be had."""
        timed = self.timed.get(gpu_of(node, self.gpus).name)
        return f"any kernel of {node.gpu}" if timed is None else timed.missing(model, parallel)

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
        """See `StageCostModel`. Raises NotMeasuredError (a LookupError) where `missing` names something.

        Kernels were timed on whole GPUs: on a part of one a step takes as much longer as the estimate says.
        """
        gpu = gpu_of(node, self.gpus)
        if why := self.missing(model, node, parallel):
            raise LookupError(f"{model.id} on {node.id}: no times of {why}")
        kernels = self.timed[gpu.name].at(FittedKernels.of(gpu, self.coefficients, node))
        overhead, unpacked = self.coefficients.engine(self.engine), support_of(self.engine).unpacked
        alone = StageStep(gpu, kernels, overhead, unpacked).seconds(model, parallel, step, head)
        if part == WHOLE_GPU:
            return alone
        whole = self._estimate.stage_seconds(model, node, parallel, step, head=head)
        shared = self._estimate.stage_seconds(model, node, parallel, step, head=head, part=part)
        return np.asarray(alone + (shared - whole))

    def measured_splits(self, model: ModelSpec, node: NodeConfig) -> tuple[Parallel, ...]:
        """See `StageCostModel`."""
        del model, node
        return ()

    def hop_seconds(self, model: ModelSpec, node: NodeConfig, tokens: Floats) -> Floats:
        """The estimate's: networks between nodes are in no table."""
        return self._estimate.hop_seconds(model, node, tokens)

    def transfer_bytes_per_s(self, model: ModelSpec, node: NodeConfig) -> float:
        return self._estimate.transfer_bytes_per_s(model, node)

    def hand_off_s_per_byte(self, model: ModelSpec, node: NodeConfig) -> tuple[float, float]:
        return self._estimate.hand_off_s_per_byte(model, node)

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> None:
        """See `StageCostModel`."""
        self._estimate.processor_cores(model, node)
