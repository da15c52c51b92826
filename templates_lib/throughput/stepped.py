"""A phase in steps of any size, of which the best is searched for."""

from dataclasses import dataclass

import numpy as np

from templates_lib.ports.cost_model import Floats
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import StepLoad, StepWork
from templates_lib.throughput.phase_work import Curve, RunningNode
from templates_lib.throughput.request_cache import BLOCK_TOKENS
from templates_lib.throughput.search import Best, best_steps, least_latency_s
from templates_lib.values.placement import StageNodes
from templates_lib.values.work import Phase

SIZES = 64
"""Number of step sizes that are tried, up to the largest that a node was made for."""


@dataclass(frozen=True, slots=True, eq=False)
class SteppedWork:
    """A `PhaseWork`."""

    phase: Phase
    steps: StepWork

    @property
    def split(self) -> NodeSplit:
        return self.steps.split

    def best(self, budgets_s: Floats) -> Best:
        return best_steps(self.steps, budgets_s)

    def least_latency_s(self) -> Floats:
        return least_latency_s(self.steps)

    def curve(self, node: RunningNode) -> Curve:
        split, work = self.split, self._sizes(node.made)
        operation = self.steps.operate(work)
        possible = bool(split.possible[node.role, 0, node.count, 0])
        blocks = split.memory.kv_blocks(self.steps.kv_free_bytes(work), BLOCK_TOKENS)
        shape = np.broadcast_shapes(operation.latency_s.shape, operation.shares.shape, operation.units_per_s.shape)

        def of_node(values: Floats) -> Floats:
            return np.asarray(np.broadcast_to(values, shape)[node.role, 0, node.count])

        works = possible & (of_node(operation.shares) <= 1)
        units = np.where(works, node.of_pipeline(of_node(operation.units_per_s), of_node(blocks)), 0.0)
        return Curve(of_node(operation.latency_s), units)

    def _sizes(self, made: StageNodes) -> StepLoad:
        """(1, 1, 1, N): up to the caps that a node was made with; a chunk of an aggregated iteration is always
        whole."""
        dp, none = made.dp, np.zeros((1, 1, 1, 1))
        if self.phase is Phase.PREFILL:
            one = min(dp * np.ceil(self.split.request.prompt), made.chunk_tokens)
            return StepLoad(none, _grid(one, one if made.batch_cap else made.chunk_tokens, dp))
        requests = _grid(dp, made.batch_cap, dp)
        return StepLoad(requests, none if self.phase is Phase.DECODE else np.full_like(none, made.chunk_tokens))


def _grid(least: float, most: float, quantum: int) -> Floats:
    least, most = max(least, 1.0), max(most, 1.0)
    between = np.floor(np.geomspace(least, most, SIZES) / quantum) * quantum
    return np.unique(np.append(between[between >= least], most))[None, None, None, :]
