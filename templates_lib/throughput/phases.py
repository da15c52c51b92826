"""Work of a phase on a node: one `PhaseWork` for each way to split the node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from templates_lib.apps.served_model import ServedModel
from templates_lib.ports.cost_model import Parallel, StageCostModel
from templates_lib.throughput.aggregated import AggregatedWork
from templates_lib.throughput.decode import DecodeWork
from templates_lib.throughput.dtypes import computes
from templates_lib.throughput.memory import node_memory
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import StepWork
from templates_lib.throughput.phase_work import PhaseWork
from templates_lib.throughput.prefill import prefill_work
from templates_lib.throughput.request import MeanRequest, request_of
from templates_lib.throughput.request_cache import RequestCache, request_cache
from templates_lib.throughput.splits import splits
from templates_lib.throughput.stepped import SteppedWork
from templates_lib.throughput.waiting.aggregated import ChunkQueues, WaitingAggregatedWork, chunk_queues
from templates_lib.throughput.waiting.decode import WaitingDecodeWork
from templates_lib.throughput.waiting.law import WaitingLaw, waiting_law
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import Gpu
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.work import Phase


@dataclass(frozen=True, slots=True, eq=False)
class NodePhases:
    """One phase of a served model, to be tried on nodes."""

    served: ServedModel
    phase: Phase
    gpus: Mapping[str, Gpu]
    cost_model: StageCostModel
    request: MeanRequest
    cache: RequestCache
    law: WaitingLaw | None
    """Law of waiting, where objectives allow for it; else None."""
    queues: ChunkQueues | None
    """The same, of the aggregated phase."""

    def works(self, node: NodeConfig) -> Iterator[PhaseWork]:
        """One a split, for all layer counts.

        None where the GPU lacks a data type, or the node a network or an engine to hand KV caches over. A node that
        joins no others, or whose engine does not cut models over nodes, holds all layers or nothing: its works are for
        that count only.

        Raises ValueError for a GPU that `gpus` does not hold.
        """
        gpu, model, engine = self._gpu(node), self.served.model, support_of(self.served.engine)
        if not computes(gpu, model, engine) or (self.phase is not Phase.AGGREGATED and not node.joins_others):
            return
        is_cut = node.joins_others and engine.cuts_over_nodes
        layers = np.arange(1 if is_cut else model.layers, model.layers + 1)
        if self.phase is not Phase.AGGREGATED and not engine.hands_over:
            return
        ways, measured = splits(model, node.gpu_count, engine), self.cost_model.measured_splits(model, node)
        for parallel in [way for way in ways if way in measured] or ways:
            yield SteppedWork(self.phase, self._steps(self._split(node, gpu, parallel, layers)))

    def _steps(self, split: NodeSplit) -> StepWork:
        if self.phase is Phase.PREFILL:
            return prefill_work(split)
        if self.phase is Phase.DECODE:
            return DecodeWork(split) if self.law is None else WaitingDecodeWork(split, self.law)
        if self.law is None or self.queues is None:
            return AggregatedWork(split)
        return WaitingAggregatedWork(split, self.law, self.queues)

    def _split(self, node: NodeConfig, gpu: Gpu, parallel: Parallel, layers: NDArray[np.int64]) -> NodeSplit:
        return NodeSplit(
            model=self.served.model,
            node=node,
            parallel=parallel,
            cost_model=self.cost_model,
            memory=node_memory(self.served.model, gpu, parallel, layers, support_of(self.served.engine)),
            request=self.request,
            cache=self.cache,
            layers=layers.astype(np.float64)[None, None, :, None],
            network_bytes_per_s=self.cost_model.transfer_bytes_per_s(self.served.model, node),
        )

    def _gpu(self, node: NodeConfig) -> Gpu:
        if node.gpu not in self.gpus:
            hint = nearest_name(node.gpu, self.gpus)
            raise ValueError(f"node configuration {node.id!r} has an unknown GPU {node.gpu!r}; {hint}")
        return self.gpus[node.gpu]


def node_phases(served: ServedModel, phase: Phase, gpus: Mapping[str, Gpu], cost_model: StageCostModel) -> NodePhases:
    law = waiting_law(served) if served.slo.queueing else None
    request = request_of(served)
    queues = chunk_queues(law, request) if law is not None and phase is Phase.AGGREGATED else None
    return NodePhases(served, phase, gpus, cost_model, request, request_cache(served), law, queues)
