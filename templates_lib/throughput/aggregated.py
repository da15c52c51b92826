"""Prefill and decode in one batch (chunked prefill). Unit: requests per second."""

from dataclasses import dataclass

import numpy as np

from templates_lib.cost_model import Floats, Step
from templates_lib.throughput.decode import batches
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import Operation, Work, network_cap, share, stay_seconds
from templates_lib.work import Phase

CHUNKS = np.array([64.0, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192])
"""Prompt tokens of one replica in one iteration."""
LEVELS = 14


@dataclass(frozen=True, slots=True, eq=False)
class AggregatedWork:
    """Iterations of a chunk of prompt tokens and one token for each decoding request.

    Every iteration, with its full chunk, keeps the budget; in steady state only the share of iterations that the
    prompts need carries one. The prompt of the certified percentile takes ⌈prompt / chunk⌉ iterations, which must
    keep the time to first token; an iteration of a stage with peers takes as long as the objective lets the slowest.
    """

    split: NodeSplit

    def levels(self) -> Work:
        dp = self.split.parallel.dp
        return Work(dp * batches(LEVELS)[None, None, None, :], dp * CHUNKS[None, :, None, None])

    def operate(self, work: Work) -> Operation:
        split, served, shape = self.split, self.split.served, self.split.served.shape
        dp, prompt, output = split.parallel.dp, shape.mean_prompt_tokens, shape.mean_output_tokens
        requests, chunk = work.requests, work.prompt_tokens
        none = np.zeros((1, 1, 1, 1))
        prefilling, decoding = np.full_like(none, shape.prefill_context), np.full_like(none, shape.decode_context)
        full = split.time(Step(split.layers, chunk, prefilling, requests, decoding), requests + chunk)
        bare = split.time(Step(split.layers, none, none, requests, decoding), requests)
        per_step = np.minimum(requests / output, chunk / prompt)
        chunked = per_step * prompt / chunk
        rate = per_step / (chunked * full.busy_s + (1 - chunked) * bare.busy_s)
        iteration_s = stay_seconds(full.latency_s, served.slo_ms(Phase.AGGREGATED))
        longest = np.ceil(shape.prompt_percentile(served.slo.percentile) * dp / chunk)
        to_first_token = longest * iteration_s * 1000 / served.slo_ms(Phase.PREFILL)
        free = self.kv_free_bytes(work)
        # A request holds its prompt while it is prefilled, and its mean context for each of its output tokens.
        held = (
            np.ceil(prompt * dp / chunk) * split.memory.worst_part(split.cache.prompt)
            + output * split.memory.worst_part(split.cache.decoding)
        ) / dp
        shares = np.maximum(share(rate * full.latency_s * held, free), to_first_token)
        memory_cap = np.maximum(free, 0.0) / (iteration_s * held)
        rate = np.minimum(np.minimum(rate, memory_cap), network_cap(split, prompt + output, none))
        return Operation(full.latency_s, shares, rate)

    def kv_free_bytes(self, work: Work) -> Floats:
        shape, dp = self.split.served.shape, self.split.parallel.dp
        prompts = np.ceil(work.prompt_tokens / dp / shape.mean_prompt_tokens)
        requests = work.requests / dp
        return self.split.memory.free_bytes(requests + work.prompt_tokens / dp, requests + prompts)
