"""Prefill alone: prompts in, KV caches out to decode nodes. Unit: prompt tokens per second."""

from dataclasses import dataclass

import numpy as np

from templates_lib.cost_model import Floats, Step
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import Operation, Work, network_cap, share, stay_seconds
from templates_lib.work import Phase

MAX_REPLICA_TOKENS = 16_384
"""Prompt tokens that one replica takes in a step at most (unless one prompt is longer): more gains no rate."""
LEVELS = 14


@dataclass(frozen=True, slots=True, eq=False)
class PrefillWork:
    """Steps of whole prompts.

    The prompt of the certified percentile, alone on a replica, must meet the budget too; so must the step's own
    prompts fit the memory. A prompt's cache stays for its pass through all stages and for its hand-off to decode.
    """

    split: NodeSplit
    percentile_latency_s: Floats
    """(4, 1, L, 1)"""
    slo_ms: float

    def levels(self) -> Work:
        shape, dp = self.split.served.shape, self.split.parallel.dp
        least = np.ceil(shape.mean_prompt_tokens)
        grid = np.unique(np.round(np.geomspace(least, max(MAX_REPLICA_TOKENS, self._percentile_prompt), LEVELS)))
        return Work(np.zeros((1, 1, 1, 1)), dp * grid[None, None, None, :])

    def operate(self, work: Work) -> Operation:
        split, shape = self.split, self.split.served.shape
        tokens = work.prompt_tokens
        time = split.time(_prompts(split.layers, tokens, shape.prefill_context), tokens)
        latency = np.maximum(time.latency_s, self.percentile_latency_s)
        free = self.kv_free_bytes(work)
        held = split.memory.worst_part(split.cache.prompt) / shape.mean_prompt_tokens / split.parallel.dp
        handed = split.cache.handed[None, None, :, None] / shape.mean_prompt_tokens
        handing = handed * shape.mean_prompt_tokens / split.network_bytes_per_s
        handed_held = split.memory.worst_part(split.cache.handed) / shape.mean_prompt_tokens / split.parallel.dp
        resident_s = stay_seconds(latency, self.slo_ms) * held + handing * handed_held
        rate = tokens / time.busy_s
        in_step = np.maximum(tokens, split.parallel.dp * self._percentile_prompt) * held
        memory_cap = np.maximum(free, 0.0) / resident_s
        rate = np.minimum(np.minimum(rate, memory_cap), network_cap(split, 1.0, handed))
        return Operation(latency, share(in_step, free), rate)

    def kv_free_bytes(self, work: Work) -> Floats:
        shape, dp = self.split.served.shape, self.split.parallel.dp
        per_replica = np.maximum(work.prompt_tokens / dp, self._percentile_prompt)
        return self.split.memory.free_bytes(per_replica, np.ceil(per_replica / shape.mean_prompt_tokens))

    @property
    def _percentile_prompt(self) -> float:
        return float(np.ceil(self.split.served.shape.prompt_percentile(self.split.served.slo.percentile)))


def prefill_work(split: NodeSplit) -> PrefillWork:
    served = split.served
    prompt = served.shape.prompt_percentile(served.slo.percentile)
    # One prompt runs on one replica; as totals are spread evenly, every replica is given one.
    tokens = np.full((1, 1, 1, 1), prompt * split.parallel.dp)
    latency = split.time(_prompts(split.layers, tokens, (prompt - 1) / 2), tokens).latency_s
    return PrefillWork(split, latency, served.slo_ms(Phase.PREFILL))


def _prompts(layers: Floats, tokens: Floats, context: float) -> Step:
    none = np.zeros((1, 1, 1, 1))
    return Step(layers, tokens, np.full_like(none, context), none, none)
