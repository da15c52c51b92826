"""The configuration nearest to an objective that none can meet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from templates_lib.apps.served_model import ServedModel
from templates_lib.ports.cost_model import Floats, StageCostModel
from templates_lib.throughput.phases import NodePhases, node_phases
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Phase


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The pipeline of equal nodes that takes the least time, with the least work it could be given."""

    work_class: str
    config: str
    stages: int
    slowest: StageRole
    """Role of the stage that needs the most of its budget."""
    needs_ms: float
    """Time of all stages together, each with the budget of the slowest."""
    has_ms: float

    @property
    def short_ms(self) -> float:
        return self.needs_ms - self.has_ms

    def __str__(self) -> str:
        nodes = f"{self.stages} × {self.config}" if self.stages > 1 else self.config
        needs, has, short = (_shown(ms) for ms in (self.needs_ms, self.has_ms, self.short_ms))
        return f"nearest is {nodes}: {needs} ms against {has} ms, {short} ms too slow ({self._reason})"

    @property
    def _reason(self) -> str:
        return (
            "one stage" if self.slowest is StageRole.ONLY else f"its {self.slowest.name.lower()} stage is the slowest"
        )


def _shown(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.4g}"


def nearest_miss(
    served: ServedModel,
    phase: Phase,
    configs: Sequence[NodeConfig],
    gpus: Mapping[str, Gpu],
    cost_model: StageCostModel,
    max_nodes: Sequence[int],
) -> NearestMiss | None:
    """Find the configuration that needs the least time for a class whose objective no configuration meets.

    Each configuration is tried alone and as a pipeline of up to its `max_nodes` equal nodes (0: not at all), layers cut
    as they need the least; mixes, which are nearer only where the two ends of a model suit different nodes, are not.
    None where even those cannot run the phase at any latency: no GPU has the data types, the model does not fit, nodes
    cannot hand KV caches over in time, or (aggregated) no chunk brings the percentile prompt's first token in time.
    """
    phases = node_phases(served, phase, gpus, cost_model)
    misses = [miss for node, most in zip(configs, max_nodes, strict=True) for miss in _pipelines(phases, node, most)]
    return min(misses, key=lambda miss: miss.needs_ms, default=None)


def _pipelines(phases: NodePhases, node: NodeConfig, max_stages: int) -> list[NearestMiss]:
    latencies = [work.least_latency_s() for work in phases.works(node)]
    if not latencies:
        return []
    least_s: Floats = np.min(latencies, axis=0)
    served, total = phases.served, phases.served.model.layers
    misses = []
    for stages in range(1, min(max_stages, total if node.joins_others else 1) + 1):
        slowest, budget_s = _least_budget(least_s, stages, total)
        if np.isfinite(budget_s):
            needs_ms, has_ms = budget_s * stages * 1000, served.slo_ms(phases.phase)
            misses.append(NearestMiss(served.class_id(phases.phase), node.id, stages, slowest, needs_ms, has_ms))
    return misses


def _least_budget(least_s: Floats, stages: int, layers: int) -> tuple[StageRole, float]:
    """The least seconds within which each of `stages` equal stages can do its part, and the role that needs them.

    `least_s` (4, L) as `PhaseWork` has it: for every layer count, or of a node that stays alone for all layers.
    """
    if stages == 1:
        return StageRole.ONLY, float(least_s[StageRole.ONLY, -1])
    copies = {StageRole.FIRST: 1, StageRole.LAST: 1} | ({StageRole.MIDDLE: stages - 2} if stages > 2 else {})
    slowest, budget_s = StageRole.FIRST, np.inf
    for role in copies:
        for seconds in np.unique(least_s[role][np.isfinite(least_s[role])]).tolist():
            within = {r: int((least_s[r] <= seconds).sum()) for r in copies}
            carried = sum(count * within[r] for r, count in copies.items())
            if seconds < budget_s and all(within.values()) and carried >= layers:
                slowest, budget_s = role, seconds
    return slowest, budget_s
