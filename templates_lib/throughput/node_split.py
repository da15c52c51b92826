"""One way to run layers on one node, and how long its steps take."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import Floats, NodeStep, Parallel, StageCostModel
from templates_lib.throughput.memory import NodeMemory
from templates_lib.throughput.request import MeanRequest
from templates_lib.throughput.request_cache import RequestCache
from templates_lib.throughput.roles import HAS_HEAD, IS_ALONE
from templates_lib.values.node_config import NodeConfig


@dataclass(frozen=True, slots=True, eq=False)
class StageTime:
    """Both (4, X, L, N)."""

    latency_s: Floats
    """Seconds from a step's start to its arrival at the next stage."""
    busy_s: Floats
    """Seconds that one step adds to a node that always has another: its slowest inner part, or its hop when that is
    longer."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeSplit:
    model: ModelSpec
    node: NodeConfig
    parallel: Parallel
    cost_model: StageCostModel
    memory: NodeMemory
    request: MeanRequest
    cache: RequestCache
    layers: Floats
    """(1, 1, L, 1): the layer counts of interest."""
    network_bytes_per_s: float

    @property
    def possible(self) -> NDArray[np.bool_]:
        """(4, 1, L, 1): a node that joins no others is a whole instance, and no pipeline part is empty."""
        return (self.layers >= self.parallel.pp) & (IS_ALONE | self.node.joins_others)

    def of_layers(self, worst_by_layers: Floats) -> Floats:
        """(all layer counts,) → (1, 1, L, 1)."""
        return worst_by_layers[self.layers.astype(np.int64) - 1]

    def sent_s(self, cache_bytes: Floats) -> Floats:
        """Seconds of the node's steps that sending so much of KV caches takes."""
        return self.cost_model.hand_off_s_per_byte(self.model, self.node)[0] * cache_bytes

    def taken_s(self, cache_bytes: Floats) -> Floats:
        """Seconds of the node's steps that taking so much of KV caches in takes."""
        return self.cost_model.hand_off_s_per_byte(self.model, self.node)[1] * cache_bytes

    def time(self, step: NodeStep, tokens: Floats, links_s: Floats | float = 0.0) -> StageTime:
        """Time of `step`, after which the activations of `tokens` tokens go to the next stage. `links_s`: what links
        that carry KV caches take of it.

        Every role but ONLY is charged the hop, LAST too (its token goes back to the first stage in decode), so that a
        middle stage is never slower than a last one. Steps of different micro-batches overlap: over the pp parts of
        the node, and the hop of one with the computation of the next.
        """
        body = self.cost_model.stage_seconds(self.model, self.node, self.parallel, step, head=False)
        headed = self.cost_model.stage_seconds(self.model, self.node, self.parallel, step, head=True)
        hop = self.cost_model.hop_seconds(self.model, self.node, tokens) if self.node.joins_others else 0.0
        hop = np.where(IS_ALONE, 0.0, hop)
        compute = np.where(HAS_HEAD, headed, body) + links_s
        slowest_part = compute - body * (1 - self.memory.part_layers / self.layers)
        latency = compute + hop
        return StageTime(latency, np.broadcast_to(np.maximum(slowest_part, hop), latency.shape))
