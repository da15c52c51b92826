"""The port to a phase on one split of a node: what it can do at best, and what a node that runs does."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from templates_lib.ports.cost_model import Floats
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.search import Best
from templates_lib.values.placement import StageNodes
from templates_lib.values.throughput_table import StageRole


@dataclass(frozen=True, slots=True)
class RunningNode:
    """One node of a stage of a placement."""

    made: StageNodes
    role: StageRole
    count: int
    """Index of its layer count among those of its split."""
    stages: int
    """Number of stages of its pipeline."""

    def of_pipeline(self, units_per_s: Floats, kv_blocks: Floats) -> Floats:
        """(N,) what the whole pipeline is given by a node that does `units_per_s` with `kv_blocks`: smaller steps leave
        room for more of these, which the node that runs does not have."""
        return units_per_s * np.minimum(1.0, self.made.kv_blocks / np.maximum(kv_blocks, 1.0)) / self.made.weight


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Rates and latencies that one node of a stage can reach: arrays (N,)."""

    latency_s: Floats
    units_per_s: Floats
    """Units/s of the whole pipeline when this node takes its share of the stage. 0: not possible at that latency."""

    def least_s(self, units_per_s: float) -> float:
        """The shortest step at which the pipeline is given so much; infinite where there is none."""
        return float(np.where(self.units_per_s >= units_per_s, self.latency_s, np.inf).min())


class PhaseWork(Protocol):
    """One phase on one split of a node."""

    @property
    def split(self) -> NodeSplit: ...

    def best(self, budgets_s: Floats) -> Best:
        """The most units/s within each of `budgets_s` (B,)."""
        ...

    def least_latency_s(self) -> Floats:
        """(4, L): the shortest latency at which a node can work at all; infinite where it cannot."""
        ...

    def curve(self, node: RunningNode) -> Curve | None:
        """Return the rates of `node` in its present split: its steps may be smaller, its KV blocks stay. None where
        nothing is certified for how it runs."""
        ...
