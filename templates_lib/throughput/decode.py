"""Decode alone: KV caches in from prefill nodes, output tokens out. Unit: output tokens per second."""

from dataclasses import dataclass

import numpy as np

from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import NodeOperation, StepLoad, network_cap, share, stay_seconds
from templates_lib.throughput.roles import IS_ALONE

MAX_REPLICA_REQUESTS = 1024
"""Requests that one replica decodes in a step at most, as vLLM's largest default `max_num_seqs`."""
LEVELS = 20


@dataclass(frozen=True, slots=True, eq=False)
class DecodeWork:
    """Steps of one token for each request of a batch.

    The hand-off is charged to the first decode gap. Of the percentile prompt it may take no longer than the time to
    first token was allowed to (else nothing is certified); of the mean prompt it is spread over the gaps of the mean
    output, and each stage saves its share out of its own budget, so that the mean time per token, first gap
    included, meets the objective whichever stage's hand-off is the slowest.
    """

    split: NodeSplit

    def levels(self) -> StepLoad:
        return StepLoad(self.split.parallel.dp * batches(LEVELS)[None, None, None, :], np.zeros((1, 1, 1, 1)))

    def operate(self, work: StepLoad) -> NodeOperation:
        split, request, cache, dp = self.split, self.split.request, self.split.cache, self.split.parallel.dp
        requests, none = work.requests, np.zeros((1, 1, 1, 1))
        context = np.full_like(none, request.decode_context)
        handed = split.of_layers(cache.handed)
        # As many come in a step as end in it.
        taken_s = split.taken_s(requests * handed / request.output)
        time = split.time(NodeStep(split.layers, none, none, requests, context), requests, taken_s)
        handing_s = handed / split.network_bytes_per_s
        latency = time.latency_s + handing_s / max(request.output - 1, 1.0)
        first_gap_s = split.of_layers(cache.handed_percentile) / split.network_bytes_per_s
        free = self.kv_free_bytes(work)
        held = split.memory.worst_part(cache.decoding) / dp
        arriving = split.memory.worst_part(cache.prompt) / dp
        rate = requests / time.busy_s
        in_flight = np.maximum(rate * time.latency_s * held, split.memory.worst_part(cache.prompt_percentile))
        resident = stay_seconds(latency, request.tpot_s) * held + handing_s / request.output * arriving
        rate = np.minimum(rate, np.maximum(free, 0.0) / resident)
        return NodeOperation(
            latency,
            np.maximum(share(in_flight, free), first_gap_s / request.ttft_s),
            np.minimum(rate, network_cap(split, 1.0, handed / request.output)),
            np.where(IS_ALONE, np.inf, requests),
        )

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        per_replica = work.requests / self.split.parallel.dp
        return self.split.memory.free_bytes(per_replica, per_replica)


def batches(levels: int) -> Floats:
    """(N,) requests of one replica, growing geometrically."""
    return np.unique(np.round(np.geomspace(1, MAX_REPLICA_REQUESTS, levels)))
