"""Prefill and decode in one batch (chunked prefill). Unit: requests per second."""

from dataclasses import dataclass

import numpy as np

from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.throughput.decode import batches
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import NodeOperation, StepLoad, network_cap, share, stay_seconds, unpaced

CHUNKS = np.array([64.0, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096])
"""Prompt tokens of one replica in one iteration that are tried."""
LEVELS = 22


@dataclass(frozen=True, slots=True, eq=False)
class AggregatedWork:
    """Iterations of a chunk of prompt tokens and one token for each decoding request.

    Every iteration, with its full chunk, keeps the budget; in steady state only the share of iterations that the
    prompts need carries one. The prompt of the certified percentile takes ⌈prompt / chunk⌉ iterations, which must
    keep the time to first token; an iteration of a stage with peers takes as long as the objective lets the slowest.
    """

    split: NodeSplit

    def levels(self) -> StepLoad:
        dp = self.split.parallel.dp
        return StepLoad(dp * batches(LEVELS)[None, None, None, :], dp * CHUNKS[None, :, None, None])

    def operate(self, work: StepLoad) -> NodeOperation:
        split, request, dp = self.split, self.split.request, self.split.parallel.dp
        requests, chunk, none = work.requests, work.prompt_tokens, np.zeros((1, 1, 1, 1))
        before, cached = np.full_like(none, request.prefill_context), np.full_like(none, request.decode_context)
        full = split.time(NodeStep(split.layers, chunk, before, requests, cached), requests + chunk)
        bare = split.time(NodeStep(split.layers, none, none, requests, cached), requests)
        per_step = np.minimum(requests / request.output, chunk / request.prompt)
        with_chunk = per_step * request.prompt / chunk
        rate = per_step / (with_chunk * full.busy_s + (1 - with_chunk) * bare.busy_s)
        # More decodes than the prompts that come can feed only make iterations longer.
        fed = np.where(requests > dp, requests / request.output / (chunk / request.prompt), 0.0)
        first_token_s = np.ceil(request.percentile_prompt * dp / chunk) * stay_seconds(full.latency_s, request.tpot_s)
        free = self.kv_free_bytes(work)
        mean_s = with_chunk * full.latency_s + (1 - with_chunk) * bare.latency_s
        # A request holds its prompt while it is prefilled, and its mean context for each of its output tokens.
        prefilling = np.ceil(request.prompt * dp / chunk) * split.memory.worst_part(split.cache.prompt)
        held = (prefilling + request.output * split.memory.worst_part(split.cache.decoding)) / dp
        in_flight = np.maximum(rate * mean_s * held, split.memory.worst_part(split.cache.prompt_percentile))
        rate = np.minimum(rate, np.maximum(free, 0.0) / (stay_seconds(mean_s, request.tpot_s) * held))
        return NodeOperation(
            full.latency_s,
            np.maximum(np.maximum(share(in_flight, free), first_token_s / request.ttft_s), fed),
            np.minimum(rate, network_cap(split, request.prompt + request.output, none)),
            unpaced(),
        )

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        dp = self.split.parallel.dp
        prompts = np.ceil(work.prompt_tokens / dp / self.split.request.prompt)
        requests = work.requests / dp
        return self.split.memory.free_bytes(requests + work.prompt_tokens / dp, requests + prompts)
