"""Times of a member's jobs by a cost model."""

from dataclasses import dataclass

import numpy as np

from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, GpuPart, NodeStep, Parallel, StageCostModel
from templates_lib.units.member import JobTimes
from templates_lib.values.node_config import NodeConfig

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean tokens of a request's prompt and output."""

    prompt: float
    output: float

    @property
    def total(self) -> float:
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class MemberJobs:
    """The jobs of a model on a mesh: a node whose GPUs all of the members are split over."""

    cost_model: StageCostModel
    model: ModelSpec
    node: NodeConfig
    lengths: Lengths

    def times(self, prefill_share: float, decode_share: float, largest_batch: int) -> JobTimes:
        """Times with shares of the GPUs' processors, for batches of up to `largest_batch` requests. Raises ValueError
        for a share outside (0, 1].

        A job waits for memory as long as half the bandwidth makes it slower.
        """
        batches = np.arange(1.0, largest_batch + 1)
        prefill, decode = self._prefill(batches, self.lengths.prompt), self._decode(batches)
        return JobTimes(
            prefill_s=self._seconds(prefill, GpuPart(prefill_share)),
            decode_s=self._seconds(decode, GpuPart(decode_share)),
            decode_reads=self._reads(decode, decode_share),
            prefill_reads=self._reads(prefill, prefill_share),
        )

    def first_token_s(self, prompt: float) -> float:
        """Seconds that a prompt of so many tokens takes alone on all of the processors; 0: the mean prompt."""
        step = self._prefill(np.ones(1), prompt or self.lengths.prompt)
        return float(self._seconds(step, WHOLE_GPU)[0])

    def _prefill(self, batches: Floats, prompt: float) -> NodeStep:
        none = np.zeros(())
        return NodeStep(np.array(float(self.model.layers)), batches * prompt, np.array((prompt - 1) / 2), none, none)

    def _decode(self, batches: Floats) -> NodeStep:
        none, context = np.zeros(()), self.lengths.prompt + self.lengths.output / 2
        return NodeStep(np.array(float(self.model.layers)), none, none, batches, np.array(context))

    def _reads(self, step: NodeStep, share: float) -> Floats:
        alone, halved = (self._seconds(step, GpuPart(share, bandwidth)) for bandwidth in (1.0, _HALF))
        return np.minimum((halved - alone) / alone, 1.0)

    def _seconds(self, step: NodeStep, part: GpuPart) -> Floats:
        parallel = Parallel(tp=self.node.gpu_count)
        return self.cost_model.stage_seconds(self.model, self.node, parallel, step, head=True, part=part)
