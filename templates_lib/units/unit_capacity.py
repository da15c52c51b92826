"""What a shared unit can do at once: a region of limits over its members' requests per second.

Jobs are counted one after the other, each with all of the GPUs, as under temporal multiplexing: no bandwidth is counted
twice, whatever the cards. What jobs gain side by side is not promised. Every resident member may have a decode job in
each of its token intervals, and a request adds its prefill and its part of the decode jobs that it is in:

    Σ x · (prefill + output · decode of one more request) + Σ decode of the first request / TPOT ≤ 1

A request holds its KV cache for its whole output at TPOT (Little's law), and all of them fit the memory that the
members' weights leave. One longest request of each member fits beside each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, Parallel, StageCostModel
from templates_lib.throughput.dtypes import computes
from templates_lib.throughput.memory import weights_bytes
from templates_lib.throughput.request_cache import BLOCK_TOKENS
from templates_lib.throughput.splits import kv_shards, splits
from templates_lib.units.job_times import Lengths, MemberJobs
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import GIB, Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.throughput_table import StageRole

ENGINE = "torch"
"""The engine of members: the one that is to lend its KV cache blocks from a common pool."""
SUPPORT = support_of(ENGINE)

MOST_MEMBERS = 8
"""Units of more are not planned: the corners of a region, which the planner lists, double with each member."""
LARGEST_BATCH = 256
"""Requests of one decode job: the cost of one more is the most that it is up to there."""
MEMBER_BYTES = 1.2 * GIB
"""On each GPU for a member's process, activations and workspace. An assumption; nobody measured it."""


@dataclass(frozen=True, slots=True)
class ServedMember:
    """A model that may be a member, and what its requests are promised."""

    name: str
    model: ModelSpec
    """As the engine holds it (`held_by`)."""
    lengths: Lengths
    longest_tokens: int
    """Of a request, prompt and output."""
    ttft_s: float
    """To the first token of a prompt of `certified_prompt` tokens that is alone."""
    tpot_s: float
    certified_prompt: float = 0.0
    """Tokens of the prompt whose first token has to be in time; 0: those of the mean prompt."""
    shape_id: str = ""
    """The workload shape that `lengths` are the means of; empty: they are given."""


@dataclass(frozen=True, slots=True)
class MemberUse:
    """What a member uses of a node, all of its GPUs together."""

    idle: float
    """Share of the time of decode jobs of one request, at its TPOT."""
    request_s: float
    """Time of one request per second."""
    kv_bytes: float
    """KV cache of one request per second."""
    weight_bytes: float
    longest_bytes: float
    """KV cache of one longest request."""


def member_use(cost_model: StageCostModel, served: ServedMember, node: NodeConfig, gpu: Gpu) -> MemberUse | None:
    """What a member uses of a node that it is split over, `gpu` of which it has; None where the engine does not run it
    there in that way (`splits`), and where it cannot keep its promises even alone.

    A decode job of b requests takes at most as long as one of the first and b - 1 of the dearest further request.
    """
    model, parallel = served.model, Parallel(tp=node.gpu_count)
    if parallel not in splits(model, node.gpu_count, SUPPORT) or not computes(gpu, model, SUPPORT):
        return None
    jobs = MemberJobs(cost_model, model, node, served.lengths)
    times = jobs.times(WHOLE_GPU.compute, WHOLE_GPU.compute, LARGEST_BATCH)
    first, prefill = float(times.decode_s[0]), float(times.prefill_s[0])
    if first >= served.tpot_s or jobs.first_token_s(served.certified_prompt) > served.ttft_s:
        return None
    further = float(np.max((times.decode_s[1:] - first) / np.arange(1, LARGEST_BATCH)))
    token, output_s = token_bytes(model, parallel), served.lengths.output * served.tpot_s
    return MemberUse(
        idle=first / served.tpot_s,
        request_s=prefill + served.lengths.output * max(further, 0.0),
        kv_bytes=(served.lengths.total + BLOCK_TOKENS / 2) * token * output_s,
        weight_bytes=_weight_bytes(model, parallel),
        longest_bytes=(served.longest_tokens + BLOCK_TOKENS) * token,
    )


def token_bytes(model: ModelSpec, parallel: Parallel) -> float:
    """KV cache of one token over all tensor-parallel ranks: where these are more than KV heads, each has all of one."""
    return model.layers * model.kv_bytes_per_token_per_layer * parallel.tp / kv_shards(model, parallel)


def _weight_bytes(model: ModelSpec, parallel: Parallel) -> float:
    """Weights over all ranks, each taken for as full as the fullest: rows of KV heads that several have are copies."""
    fullest = weights_bytes(model, parallel, np.array([model.layers]))
    return parallel.tp * float(fullest[list(StageRole).index(StageRole.ONLY), 0, 0, 0])


@dataclass(frozen=True, slots=True, eq=False)
class UnitCapacity:
    """Of members in order: x requests per second of each are served at once where both Σ x · time and Σ x · kv are at
    most 1. Arrays (members,)."""

    time: Floats
    kv: Floats
    pool_bytes: float
    """KV cache that the weights leave, over all GPUs."""

    @property
    def most(self) -> Floats:
        """(members,) requests per second of each without the others."""
        return 1.0 / np.maximum(self.time, self.kv)


def usable_bytes(gpu: Gpu, gpus: int, members: int) -> float:
    """Memory of a node for weights and KV caches of so many members."""
    return gpus * (gpu.memory_bytes * SUPPORT.usable_share - MEMBER_BYTES * members)


def unit_capacity(members: Sequence[MemberUse], gpu: Gpu, gpus: int) -> UnitCapacity | None:
    """What members do together on a node; None where they do not fit its memory or time, or are too many."""
    pool = usable_bytes(gpu, gpus, len(members)) - sum(member.weight_bytes for member in members)
    left = 1.0 - sum(member.idle for member in members)
    if len(members) > MOST_MEMBERS or left <= 0 or pool < sum(member.longest_bytes for member in members):
        return None
    time, kv = np.array([(member.request_s, member.kv_bytes) for member in members]).T
    return UnitCapacity(time / left, kv / pool, pool)
