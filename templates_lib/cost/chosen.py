"""Step times of what nobody measured here: the fitted estimate, and NVIDIA's kernels where they are chosen."""

from collections.abc import Mapping
from dataclasses import dataclass

from templates_lib.cost.estimated import EstimatedCostModel, estimated_cost_model
from templates_lib.cost.kernel_based import KERNELS, KernelCostModel, kernel_cost_model
from templates_lib.cost.kernel_tables import FRAMEWORKS, SYSTEMS, installed_release
from templates_lib.cost.step_time_errors import load_step_time_errors
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, GpuPart, NodeStep, Parallel, StageCostModel
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.settings import StepTimes


def unmeasured_cost_model(gpus: Mapping[str, Gpu], engine: str, wanted: StepTimes) -> StageCostModel:
    """Step times for `gpus` (by name) under `engine`, from what is `wanted`.

    Raises ValueError for an engine without an estimate, or where kernels are wanted and not installed.
    """
    estimate = estimated_cost_model(gpus, engine)
    cards = cards_by_kernels(gpus, engine, wanted)
    if not cards:
        return estimate
    try:
        return ChosenCostModel(estimate, kernel_cost_model(cards, engine))
    except LookupError as error:
        raise ValueError(f"step_times: {KERNELS}: {error}") from None


def cards_by_kernels(gpus: Mapping[str, Gpu], engine: str, wanted: StepTimes) -> dict[str, Gpu]:
    """Those of `gpus` whose times come from kernels: all that were timed if `kernels` are wanted; of the best source
    those where kernels were found to be clearly better, if they are installed."""
    if wanted is StepTimes.KERNELS:
        return {name: gpu for name, gpu in gpus.items() if name in SYSTEMS}
    if wanted is StepTimes.ESTIMATED or not installed_release():
        return {}
    known = load_step_time_errors().engines.get(FRAMEWORKS.get(engine, engine), {})
    return {name: gpus[name] for name, each in known.items() if name in gpus and each.chosen == KERNELS}


@dataclass(frozen=True, slots=True, eq=False)
class ChosenCostModel:
    """A `StageCostModel`: the kernels' times of what was timed on the GPUs that `kernels` has, else the estimate's."""

    estimate: EstimatedCostModel
    kernels: KernelCostModel

    @property
    def source(self) -> str:
        return f"{self.estimate.source}, {KERNELS} on {', '.join(sorted(self.kernels.gpus))}"

    @property
    def fingerprint(self) -> str:
        return f"{self.estimate.fingerprint}{self.kernels.fingerprint}"

    def of(self, model: ModelSpec, node: NodeConfig, parallel: Parallel) -> EstimatedCostModel | KernelCostModel:
        """The one whose times those of `model` on `node` are, under a split."""
        known = node.gpu in self.kernels.gpus and not self.kernels.missing(model, node, parallel)
        return self.kernels if known else self.estimate

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
        """See `StageCostModel`."""
        return self.of(model, node, parallel).stage_seconds(model, node, parallel, step, head=head, part=part)

    def measured_splits(self, model: ModelSpec, node: NodeConfig) -> tuple[Parallel, ...]:
        """See `StageCostModel`."""
        del model, node
        return ()

    def hop_seconds(self, model: ModelSpec, node: NodeConfig, tokens: Floats) -> Floats:
        return self.estimate.hop_seconds(model, node, tokens)

    def transfer_bytes_per_s(self, model: ModelSpec, node: NodeConfig) -> float:
        return self.estimate.transfer_bytes_per_s(model, node)

    def hand_off_s_per_byte(self, model: ModelSpec, node: NodeConfig) -> tuple[float, float]:
        return self.estimate.hand_off_s_per_byte(model, node)

    def processor_cores(self, model: ModelSpec, node: NodeConfig) -> None:
        """See `StageCostModel`."""
        self.estimate.processor_cores(model, node)
