"""Which configuration comes nearest to an objective that none can meet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from templates_lib.cost_model import Floats, StageCostModel
from templates_lib.gpu import Gpu
from templates_lib.node_config import NodeConfig
from templates_lib.served_model import ServedModel
from templates_lib.throughput.phases import NodePhases, node_phases
from templates_lib.throughput.search import least_latency_s
from templates_lib.throughput_table import Role
from templates_lib.work import Phase


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The pipeline of equal nodes that takes the least time, with the least work it could be given."""

    work_class: str
    config: str
    stages: int
    slowest: Role
    """What the stage holds that needs the most of its budget."""
    needs_ms: float
    """Of all stages together, each with the budget of the slowest."""
    has_ms: float

    @property
    def short_ms(self) -> float:
        return self.needs_ms - self.has_ms

    def __str__(self) -> str:
        nodes = f"{self.stages} × {self.config}" if self.stages > 1 else self.config
        short = f"{self.short_ms:.3g} ms too slow"
        return f"nearest is {nodes}: {self.needs_ms:.4g} ms against {self.has_ms:.4g} ms, {short} ({self._reason})"

    @property
    def _reason(self) -> str:
        return "one stage" if self.slowest is Role.ONLY else f"its {self.slowest.name.lower()} stage is the slowest"


def nearest_miss(
    served: ServedModel,
    phase: Phase,
    configs: Sequence[NodeConfig],
    gpus: Mapping[str, Gpu],
    cost_model: StageCostModel,
    max_stages: int,
) -> NearestMiss | None:
    """For a class whose objective no configuration meets: the one that needs the least time.

    Every configuration is tried alone and as an even pipeline of up to `max_stages` equal nodes; a mix of
    configurations is no faster than its fastest. None where even those cannot run the phase at any latency: no GPU
    has the data types, the model does not fit, nodes cannot hand KV caches over in time, or (aggregated) no chunk
    brings the percentile prompt's first token in time.
    """
    phases = node_phases(served, phase, gpus, cost_model)
    misses = [miss for node in configs for miss in _pipelines(phases, node, max_stages)]
    return min(misses, key=lambda miss: miss.needs_ms, default=None)


def _pipelines(phases: NodePhases, node: NodeConfig, max_stages: int) -> list[NearestMiss]:
    latencies = [least_latency_s(work) for work in phases.works(node)]
    if not latencies:
        return []
    least_s: Floats = np.min(latencies, axis=0)
    served, total = phases.served, phases.served.model.layers
    misses = []
    for stages in range(1, (min(max_stages, total) if node.joins_others else 1) + 1):
        roles = (Role.ONLY,) if stages == 1 else (Role.FIRST, Role.LAST, Role.MIDDLE)[: min(stages, 3)]
        held = -(-total // stages) - 1 if node.joins_others else 0  # alone, the whole model is the only layer count
        slowest = max(roles, key=lambda role: float(least_s[role, held]))
        needs_ms = float(least_s[slowest, held]) * stages * 1000
        if np.isfinite(needs_ms):
            has_ms = served.slo_ms(phases.phase)
            misses.append(NearestMiss(served.class_id(phases.phase), node.id, stages, slowest, needs_ms, has_ms))
    return misses
