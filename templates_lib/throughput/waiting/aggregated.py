"""Prefill and decode in one batch, with what prompts wait for each other and as many requests as come at random.
Unit: requests per second."""

from dataclasses import dataclass

import numpy as np

from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.throughput.aggregated import CHUNKS, LEVELS
from templates_lib.throughput.decode import batches
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import NodeOperation, StepLoad, network_cap, share, stay_seconds, unpaced
from templates_lib.throughput.request import MeanRequest
from templates_lib.throughput.waiting.law import WaitingLaw
from templates_lib.throughput.waiting.population import ALIKE
from templates_lib.throughput.waiting.queue import Customers, greatest_load

ITERATIONS = np.geomspace(1.0, 1e5, 120)
"""Within which a first token must come, for which the greatest load is known."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkQueues:
    """Prompts, first come first served, by a chunk of each iteration: one that comes waits for those before it, at
    first for the end of an iteration under way, and takes whole iterations itself."""

    loads: Floats
    """(CHUNKS, ITERATIONS): the greatest share of iterations that carry a chunk."""

    def load(self, chunk: Floats, iterations: Floats) -> Floats:
        """`chunk`: of CHUNKS, and `iterations` that a first token may take; both broadcast together."""
        chunk, within = np.broadcast_arrays(chunk, np.log(np.maximum(iterations, 1e-9)))
        row = np.searchsorted(CHUNKS, chunk).clip(max=len(CHUNKS) - 1)
        known = np.log(ITERATIONS)
        place = np.interp(within, known, np.arange(len(known)))
        cell = np.minimum(place.astype(np.int64), len(known) - 2)
        start, end = self.loads[row, cell], self.loads[row, cell + 1]
        return np.asarray(np.where(within < 0, 0.0, start + (end - start) * (place - cell)))


def chunk_queues(law: WaitingLaw, request: MeanRequest) -> ChunkQueues:
    chunk, within = (each.ravel() for each in np.meshgrid(CHUNKS, ITERATIONS, indexing="ij"))
    in_chunks = law.prompts / chunk[:, None]
    # What the objective gives shorter prompts less than that of the percentile (`ttft_ms_per_1k_prompt_tokens`).
    less = (request.percentile_prompt - law.prompts) * request.ttft_per_token / request.ttft_s * within[:, None]
    busy = law.means(in_chunks)
    customers = Customers(law.weights, np.ceil(in_chunks) + 1 + less, law.weights, busy, busy)
    loads = greatest_load(customers, within, law.share)
    return ChunkQueues(loads.reshape(len(CHUNKS), len(ITERATIONS)))


@dataclass(frozen=True, slots=True, eq=False)
class WaitingAggregatedWork:
    """Iterations of a chunk of prompt tokens and one token for each of a batch that is Poisson: `requests` at most,
    those included whose prompt waits. One with its full chunk keeps the budget for the batch that a request meets.
    """

    split: NodeSplit
    law: WaitingLaw
    queues: ChunkQueues

    def levels(self) -> StepLoad:
        dp = self.split.parallel.dp
        return StepLoad(dp * batches(LEVELS)[None, None, None, :], dp * CHUNKS[None, :, None, None])

    def operate(self, work: StepLoad) -> NodeOperation:
        split, request, law, dp = self.split, self.split.request, self.law, self.split.parallel.dp
        most, chunk, none = work.requests / dp, work.prompt_tokens, np.zeros((1, 1, 1, 1))
        all_there = law.population.mean_within(most, ALIKE)

        def iteration(prompts: Floats, decoding: Floats) -> tuple[Floats, Floats]:
            before = np.full_like(none, request.prefill_context) if prompts is chunk else none
            cached = np.full_like(none, request.decode_context)
            time = split.time(NodeStep(split.layers, prompts, before, dp * decoding, cached), dp * decoding + prompts)
            return time.latency_s, time.busy_s

        met = np.minimum(all_there + 1, most)
        full, full_busy = iteration(chunk, met)
        bare, bare_busy = iteration(none, met)
        fullest, _ = iteration(chunk, most)
        spread = (fullest - full) / np.maximum(most - met, 1.0) * np.sqrt(all_there * law.context_sizes.square) / full
        stay = stay_seconds(full, request.tpot_s)
        # A request is there while its prompt waits and is computed, at most as long as its first token may take.
        waiting = request.ttft_s / stay
        decoding = all_there * request.output / (request.output + waiting)
        load = self.queues.load(chunk / dp, request.ttft_s / stay)
        per_step = np.minimum(dp * decoding / request.output, load * chunk / request.prompt)
        with_chunk = per_step * request.prompt / chunk
        rate = per_step / (with_chunk * full_busy + (1 - with_chunk) * bare_busy)
        # More requests than the prompts that come can feed only make iterations longer.
        fed = np.where(most > 1, dp * decoding / request.output / (chunk / request.prompt), 0.0)
        first_token_s = (np.ceil(request.percentile_prompt * dp / chunk) + 1) * stay
        free = self.kv_free_bytes(work)
        held = split.memory.worst_part(split.cache.decoding)
        room = dp * law.population.mean_within(np.maximum(free, 0.0) / held, law.context_sizes)
        mean_s = stay_seconds(with_chunk * full + (1 - with_chunk) * bare, request.tpot_s)
        there_s = request.ttft_s * split.memory.worst_part(split.cache.prompt) / held + request.output * mean_s
        longest = share(split.memory.worst_part(split.cache.prompt_percentile), free)
        return NodeOperation(
            full / law.together.step_share(spread),
            np.maximum(np.maximum(longest, first_token_s / request.ttft_s), fed),
            np.minimum(np.minimum(rate, room / there_s), network_cap(split, request.prompt + request.output, none)),
            unpaced(),
        )

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        dp = self.split.parallel.dp
        prompts = np.ceil(work.prompt_tokens / dp / self.split.request.prompt)
        requests = work.requests / dp
        return self.split.memory.free_bytes(requests + work.prompt_tokens / dp, requests + prompts)
