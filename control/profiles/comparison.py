"""Measured against estimated, step by step, for people."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from control.profiles.store import StoredProfile
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.measured import MeasuredCostModel
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.engines import estimate_of

LAYERS = 10


@dataclass(frozen=True, slots=True)
class ProfileComparison:
    step: str
    measured_ms: float
    estimated_ms: float

    @property
    def ratio(self) -> float:
        return self.measured_ms / self.estimated_ms


def compare(stored: StoredProfile, model: ModelSpec) -> Iterator[ProfileComparison]:
    """Steps of LAYERS layers of `model`, with and without the LM head, cut over devices by heads where they were."""
    estimate = estimated_cost_model({stored.gpu.name: stored.gpu}, estimate_of(stored.profile.engine))
    measured = MeasuredCostModel(stored.profile.engine, [stored.profile], estimate)
    parallel = Parallel(tp=stored.profile.tensor_parallel)
    # A trial on processors used none of the node's GPUs, and is compared with one of them.
    node = replace(stored.node, gpu_count=parallel.tp)
    for name, step, head in (
        ("1 request, 128 cached", _step(requests=1, cached=128), False),
        ("8 requests, 128 cached", _step(requests=8, cached=128), False),
        ("8 requests and head", _step(requests=8, cached=128), True),
        ("prompt of 256", _step(prompt=256), False),
    ):
        estimated_s = float(estimate.stage_seconds(model, node, parallel, step, head=head))
        measured_s = float(measured.stage_seconds(model, node, parallel, step, head=head))
        yield ProfileComparison(name, 1000 * measured_s, 1000 * estimated_s)


def _step(*, prompt: int = 0, requests: int = 0, cached: int = 0) -> NodeStep:
    return NodeStep(*(np.array(float(v)) for v in (LAYERS, prompt, max(prompt - 1, 0) / 2, requests, cached)))
