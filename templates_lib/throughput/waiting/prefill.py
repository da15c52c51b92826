"""Prefill alone, with what prompts wait for each other. Unit: prompt tokens per second."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from templates_lib.ports.cost_model import Floats, NodeStep
from templates_lib.throughput.node_split import NodeSplit, StageTime
from templates_lib.throughput.operation import NodeOperation, StepLoad, network_cap, share, unpaced
from templates_lib.throughput.phase_work import Curve, RunningNode
from templates_lib.throughput.request_cache import BLOCK_TOKENS
from templates_lib.throughput.search import Best, least_latency_s
from templates_lib.throughput.waiting.law import BELOW, WaitingLaw
from templates_lib.throughput.waiting.queue import Customers, greatest_load
from templates_lib.values.throughput_table import StageRole

Ints = NDArray[np.int64]

CUTS = (1.0, 0.995)
"""Shares of all prompts that go in one step: all, or but the longest. Cut in several steps, those let others in
between, who would wait behind them at every part of a pipeline."""
SHARES = 64
"""Number of shares of the objective at which the rate of a running node is found."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingPrefillWork:
    """Prefill with a queue for each replica (lanes, `policies/lanes.py`) with its share of Poisson arrivals. A step is
    one prompt (or a part of one of the longest), which takes what it takes alone: prompts are in time by the budget of
    the stage, waiting included. A prompt that is cut takes no less, as its parts follow each other.

    That replicas are chosen by what they have to do, and instances in turns, makes arrivals less random than that.
    """

    split: NodeSplit
    law: WaitingLaw
    time: StageTime
    """Times of steps of one prompt of each length of the law: (4, 1, L, BELOW)."""
    percentile_latency_s: Floats
    """(4, 1, L, 1)"""

    def levels(self) -> StepLoad:
        return self._work(self.law.prompts[-1])

    def _work(self, longest: float) -> StepLoad:
        """Work of prompts up to `longest` tokens, one for each replica."""
        dp, one = self.split.parallel.dp, np.ones((1, 1, 1, 1))
        return StepLoad(dp * one, dp * np.ceil(longest) * one)

    def operate(self, work: StepLoad) -> NodeOperation:
        """Operate with nobody waiting."""
        split, request, dp = self.split, self.split.request, self.split.parallel.dp
        held = split.memory.worst_part(split.cache.prompt) / request.prompt
        in_step = np.maximum(work.prompt_tokens / dp, request.percentile_prompt) * held
        handing = share(self._handing_s, np.array(self.law.apart.hand_off_s))
        shares = np.maximum(share(in_step, self.kv_free_bytes(work)), handing)
        rate = self._most_units_per_s(work)
        return NodeOperation(self.percentile_latency_s, shares, rate, unpaced())

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        request = self.split.request
        per_replica = np.maximum(work.prompt_tokens / self.split.parallel.dp, request.percentile_prompt)
        return self.split.memory.free_bytes(per_replica, np.ones_like(per_replica))

    def best(self, budgets_s: Floats) -> Best:
        """Find the best steps as `search.best_steps`: at the load that each budget allows, with the better one of
        CUTS."""
        found = [self._best(budgets_s, int(np.searchsorted(BELOW, cut))) for cut in CUTS]
        better = found[1].units_per_s > found[0].units_per_s
        return Best(*(np.where(better, getattr(found[1], f.name), getattr(found[0], f.name)) for f in fields(Best)))

    def least_latency_s(self) -> Floats:
        """Least latency in seconds, with nobody waiting."""
        return least_latency_s(self)

    def curve(self, node: RunningNode) -> Curve | None:
        """Return the rates at shares of the objective, an even one among them, in place of sizes of steps: those are of
        one prompt."""
        made, slo_s = node.made, self.split.request.ttft_s
        if made.batch_cap != made.dp:
            return None  # It puts prompts together, which was not certified.
        budgets_s = np.unique(np.append(np.geomspace(slo_s / SHARES, slo_s, SHARES), slo_s / node.stages))
        best = self.best(budgets_s)
        units, blocks = (each[node.role, :, node.count] for each in (best.units_per_s, best.kv_blocks))
        return Curve(budgets_s, node.of_pipeline(units, blocks))

    def _best(self, budgets_s: Floats, cut: int) -> Best:
        """`cut`: which of the law's prompts is the longest that goes in one step."""
        split, work = self.split, self._work(self.law.prompts[cut])
        operation = self.operate(work)
        possible = (split.possible & (operation.shares <= 1))[:, 0, :, 0]
        latency, most = (each[:, 0, :, 0] for each in (operation.latency_s, operation.units_per_s))
        full = split.request.prompt * split.parallel.dp / self._busy_s[:, 0]
        units = np.zeros((len(StageRole), len(budgets_s), latency.shape[-1]))
        for number, budget in enumerate(budgets_s):
            load, asked = np.zeros(latency.shape), possible & (latency <= budget)
            # A first stage takes as long as a middle one, which may have room for more layers.
            asked[StageRole.FIRST] = False
            roles, counts = np.nonzero(asked)
            load[asked] = self._load(roles, counts, float(budget), cut)
            load[StageRole.FIRST] = load[StageRole.MIDDLE]
            units[:, number] = np.where(possible, np.minimum(load * full, most), 0.0)
        blocks = split.memory.kv_blocks(self.kv_free_bytes(work), BLOCK_TOKENS)[:, 0, :, 0]
        prompts, chunk = (np.where(units > 0, each.item(), 0.0) for each in (work.requests, work.prompt_tokens))
        return Best(units, prompts, chunk, np.broadcast_to(blocks[:, None], units.shape))

    def _load(self, roles: Ints, counts: Ints, budget_s: float, cut: int) -> Floats:
        law, request = self.law, self.split.request
        busy, own = self.time.busy_s[roles, 0, counts], self.time.latency_s[roles, 0, counts]
        steps = np.ceil(law.prompts[1:] / law.prompts[cut])
        step_weights = law.weights * steps
        through = law.means(own) / steps
        # What the objective gives shorter prompts less than that of the percentile (`ttft_ms_per_1k_prompt_tokens`).
        own = own + (request.percentile_prompt - law.prompts) * request.ttft_per_token / request.ttft_s * budget_s
        step_busy = np.minimum(law.means(busy) / steps, through)
        customers = Customers(law.weights, own, step_weights / step_weights.sum(), step_busy, through)
        return greatest_load(customers, np.full(len(roles), budget_s), law.share)

    @property
    def _busy_s(self) -> Floats:
        """(4, 1, L): of a step, in the mean."""
        return np.asarray(self.law.means(self.time.busy_s) @ self.law.weights)

    @property
    def _handing_s(self) -> Floats:
        """(1, 1, L, 1): of the mean prompt's cache on an idle network."""
        return self.split.of_layers(self.split.cache.handed) / self.split.network_bytes_per_s

    def _most_units_per_s(self, work: StepLoad) -> Floats:
        """(4, 1, L, 1): prompts that are there hold their cache for all of the objective and for their hand-off. A
        network that is busy for a share ρ of its time makes a hand-off 1 / (1 - ρ) as long."""
        split, request, dp = self.split, self.split.request, self.split.parallel.dp
        held = split.memory.worst_part(split.cache.prompt)
        room = np.maximum(self.kv_free_bytes(work), 0.0) / held
        there = dp * self.law.population.mean_within(room, self.law.prompt_sizes)
        handing, allowed = self._handing_s, self.law.apart.hand_off_s
        of_room = there / (request.ttft_s + np.minimum(handing, allowed))
        of_links = np.maximum(1 - handing / allowed, 0.0) / handing
        network = network_cap(split, 1.0, split.of_layers(split.cache.handed) / request.prompt)
        return np.asarray(np.minimum(request.prompt * np.minimum(of_room, of_links), network))


def waiting_prefill_work(split: NodeSplit, law: WaitingLaw) -> WaitingPrefillWork:
    lengths = np.append(law.prompts, split.request.percentile_prompt)[None, None, None, :]
    none = np.zeros((1, 1, 1, 1))
    # One prompt runs on one replica; as totals are spread evenly, every replica is given one.
    tokens = lengths * split.parallel.dp
    time = split.time(NodeStep(split.layers, tokens, (lengths - 1) / 2, none, none), tokens)
    alone = StageTime(time.latency_s[..., :-1], time.busy_s[..., :-1])
    return WaitingPrefillWork(split, law, alone, time.latency_s[..., -1:])
