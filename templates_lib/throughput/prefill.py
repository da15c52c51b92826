"""Prefill alone: prompts in, KV caches out to decode nodes. Unit: prompt tokens per second."""

import math
from dataclasses import dataclass

import numpy as np

from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import NodeOperation, StepLoad, network_cap, share, stay_seconds, unpaced
from templates_lib.values.placement import FULLEST

MAX_REPLICA_TOKENS = 16_384
"""Prompt tokens that one replica takes in a step at most (unless one prompt is longer): more gains no rate."""
LEVELS = 14


@dataclass(frozen=True, slots=True, eq=False)
class PrefillWork:
    """Steps of whole prompts, whose KV caches are sent meanwhile.

    The prompt of the certified percentile, alone on a replica, must meet the budget too, and fit the memory. A
    prompt's cache stays for its pass through all stages and for its hand-off to decode. Rates and latencies are
    those of steps as full as they are in the mean, memory is for the fullest.
    """

    split: NodeSplit
    percentile_latency_s: Floats
    """(4, 1, L, 1)"""

    def levels(self) -> StepLoad:
        request = self.split.request
        most = max(MAX_REPLICA_TOKENS, math.ceil(request.percentile_prompt))
        grid = np.unique(np.round(np.geomspace(math.ceil(request.prompt), most, LEVELS)))
        return StepLoad(np.zeros((1, 1, 1, 1)), self.split.parallel.dp * grid[None, None, None, :])

    def operate(self, work: StepLoad) -> NodeOperation:
        split, request, dp = self.split, self.split.request, self.split.parallel.dp
        tokens = work.prompt_tokens
        # Bytes per prompt token, on the wire.
        handed = split.of_layers(split.cache.handed) / request.prompt
        step = _prompts(split.layers, tokens, request.prefill_context)
        time = split.time(step, tokens, split.sent_s(tokens * handed))
        latency = np.maximum(time.latency_s, self.percentile_latency_s)
        free = self.kv_free_bytes(work)
        # Bytes per prompt token, on one GPU while the prompt is computed and handed over.
        held = split.memory.worst_part(split.cache.prompt) / request.prompt / dp
        handing_s = handed * request.prompt / split.network_bytes_per_s
        resident = (stay_seconds(latency, request.ttft_s) + handing_s) * held
        in_step = np.maximum(tokens, dp * request.percentile_prompt) * held
        rate = np.minimum(tokens / time.busy_s, np.maximum(free, 0.0) / resident)
        rate = np.minimum(rate, network_cap(split, 1.0, handed))
        return NodeOperation(latency, share(in_step, free), rate, unpaced())

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        request = self.split.request
        per_replica = np.maximum(FULLEST * work.prompt_tokens / self.split.parallel.dp, request.percentile_prompt)
        return self.split.memory.free_bytes(per_replica, np.ceil(per_replica / request.prompt))


def prefill_work(split: NodeSplit) -> PrefillWork:
    prompt = split.request.percentile_prompt
    # One prompt runs on one replica; as totals are spread evenly, every replica is given one.
    tokens = np.full((1, 1, 1, 1), prompt * split.parallel.dp)
    sent_s = split.sent_s(split.parallel.dp * split.of_layers(split.cache.handed_percentile))
    return PrefillWork(split, split.time(_prompts(split.layers, tokens, (prompt - 1) / 2), tokens, sent_s).latency_s)


def _prompts(layers: Floats, tokens: Floats, context: float) -> NodeStep:
    none = np.zeros((1, 1, 1, 1))
    return NodeStep(layers, tokens, np.full_like(none, context), none, none)
