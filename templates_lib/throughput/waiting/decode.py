"""Decode alone, with as many requests as come at random. Unit: output tokens per second."""

from dataclasses import dataclass

import numpy as np

from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.throughput.decode import LEVELS, batches
from templates_lib.throughput.node_split import NodeSplit
from templates_lib.throughput.operation import NodeOperation, StepLoad, network_cap, share, stay_seconds
from templates_lib.throughput.roles import IS_ALONE
from templates_lib.throughput.waiting.law import WaitingLaw
from templates_lib.throughput.waiting.population import ALIKE
from templates_lib.values.placement import HAND_OFF_PIECES


@dataclass(frozen=True, slots=True, eq=False)
class WaitingDecodeWork:
    """Steps of a batch that is Poisson: one of `requests` at most, which a request that comes finds with the certified
    percentile, itself included.

    A request's own steps are as slow as the batch that it meets, for as long as it stays. What of the objective they
    may take, and the hand-off the rest, is one allowance for all nodes (`GapLaw`), whichever it is handed over from.
    """

    split: NodeSplit
    law: WaitingLaw

    def levels(self) -> StepLoad:
        return StepLoad(self.split.parallel.dp * batches(LEVELS)[None, None, None, :], np.zeros((1, 1, 1, 1)))

    def operate(self, work: StepLoad) -> NodeOperation:
        split, request, cache, dp = self.split, self.split.request, self.split.cache, self.split.parallel.dp
        law, none = self.law, np.zeros((1, 1, 1, 1))
        most = work.requests / dp
        mean = law.population.mean_within(most, ALIKE)
        met = np.minimum(mean + 1, most)
        context = np.full_like(none, request.decode_context)
        handed = split.of_layers(cache.handed)
        # As many come in a step as end in it.
        time, fullest = (
            split.time(
                NodeStep(split.layers, none, none, dp * batch, context),
                dp * batch,
                split.taken_s(dp * mean * handed / request.output),
            )
            for batch in (met, most)
        )
        each = (fullest.latency_s - time.latency_s) / np.maximum(most - met, 1.0)
        spread = each * np.sqrt(mean * law.context_sizes.square) / time.latency_s
        step_share = np.where(IS_ALONE, law.apart.step_share(spread), law.in_turns.step_share(spread))
        latency = share(time.latency_s, step_share)
        handing_s = handed / split.network_bytes_per_s
        allowed = np.where(IS_ALONE, law.apart.hand_off_s, law.in_turns.hand_off_s)
        tail_s = handing_s / HAND_OFF_PIECES
        free = self.kv_free_bytes(work)
        room = np.maximum(free, 0.0) / split.memory.worst_part(cache.decoding)
        there = dp * law.population.mean_within(room, law.context_sizes)
        stay = stay_seconds(time.latency_s, request.tpot_s) + handing_s / request.output
        rate = np.minimum(dp * mean / time.busy_s, there / stay)
        # A network that is busy for a share ρ of its time makes a piece of a hand-off 1 / (1 - ρ) as long.
        of_links = request.output * np.maximum(1 - tail_s / allowed, 0.0) / handing_s
        network = network_cap(split, 1.0, handed / request.output)
        return NodeOperation(
            latency,
            np.maximum(share(split.memory.worst_part(cache.prompt_percentile), free), tail_s / allowed),
            np.minimum(rate, np.minimum(of_links, network)),
            np.where(IS_ALONE, np.inf, dp * mean),
        )

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        per_replica = work.requests / self.split.parallel.dp
        return self.split.memory.free_bytes(per_replica, per_replica)
