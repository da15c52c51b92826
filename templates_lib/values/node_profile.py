"""Measurements of an engine that serves one model on one kind of node."""

from dataclasses import dataclass

from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.values.pair_cost import PairCost


@dataclass(frozen=True, slots=True)
class ProfileErrors:
    """|predicted / measured - 1| of steps that the fit has not seen."""

    rows: int
    median: float
    worst: float


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Seconds are of the node as it is: under its quota, with the engine's threads."""

    subject: str
    """Hash of the hardware, the node's share of it, the engine's release and the model."""
    measured_at: str
    """ISO 8601, UTC."""
    machine: str
    """Name of the machine, for people."""
    engine: str
    model: str
    dtype: str
    config: str
    """Node configuration."""
    cpu_cores: float
    """The node's share of the machine's processors."""
    step_terms_s: dict[str, float]
    """Term of `templates_lib.cost.step_terms` → seconds of one unit of it, none below 0."""
    errors: ProfileErrors
    pipeline: PipelineCost
    hand_off: HandOffCost
    device: str = "cpu"
    """Kind of device that computed the steps: `cpu`, or `cuda`, beside which the node's processors are free."""
    tensor_parallel: int = 1
    """Devices that the layers were cut over by heads."""
    pair: PairCost | None = None
    """Measurements of two such nodes, where there were two."""

    @property
    def has_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.engine, self.model, self.dtype, self.config
