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
from templates_lib.ports.cost_model import WHOLE_GPU, Floats, StageCostModel
from templates_lib.units.job_times import Lengths, MemberJobs
from templates_lib.values.gpu import GIB, Gpu
from templates_lib.values.node_config import NodeConfig

MOST_MEMBERS = 8
"""Units of more are not planned: the corners of a region, which the planner lists, double with each member."""
LARGEST_BATCH = 256
"""Requests of one decode job: the cost of one more is the most that it is up to there."""
USABLE_SHARE = 0.9
"""Of a GPU's memory."""
MEMBER_BYTES = 1.2 * GIB
"""On each GPU for a member's process, activations and workspace. An assumption; nobody measured it."""


@dataclass(frozen=True, slots=True)
class ServedMember:
    """A model that may be a member, and what its requests are promised."""

    name: str
    model: ModelSpec
    lengths: Lengths
    longest_tokens: int
    """Of a request, prompt and output."""
    ttft_s: float
    tpot_s: float


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


def member_use(cost_model: StageCostModel, served: ServedMember, node: NodeConfig) -> MemberUse | None:
    """What a member uses of a node that it is split over; None where it cannot keep its promises even alone.

    A decode job of b requests takes at most as long as one of the first and b - 1 of the dearest further request.
    """
    times = MemberJobs(cost_model, served.model, node, served.lengths).times(
        WHOLE_GPU.compute, WHOLE_GPU.compute, LARGEST_BATCH
    )
    first, prefill = float(times.decode_s[0]), float(times.prefill_s[0])
    if first >= served.tpot_s or prefill > served.ttft_s:
        return None
    further = float(np.max((times.decode_s[1:] - first) / np.arange(1, LARGEST_BATCH)))
    token = served.model.layers * served.model.kv_bytes_per_token_per_layer
    output_s = served.lengths.output * served.tpot_s
    return MemberUse(
        idle=first / served.tpot_s,
        request_s=prefill + served.lengths.output * max(further, 0.0),
        kv_bytes=served.lengths.total * token * output_s,
        weight_bytes=served.model.weight_bytes,
        longest_bytes=served.longest_tokens * token,
    )


@dataclass(frozen=True, slots=True, eq=False)
class UnitCapacity:
    """Of members in order: x requests per second of each are served at once where both Σ x · time and Σ x · kv are at
    most 1. Arrays (members,)."""

    time: Floats
    kv: Floats

    @property
    def most(self) -> Floats:
        """(members,) requests per second of each without the others."""
        return 1.0 / np.maximum(self.time, self.kv)


def usable_bytes(gpu: Gpu, gpus: int, members: int) -> float:
    """Memory of a node for weights and KV caches of so many members."""
    return gpus * (gpu.memory_bytes * USABLE_SHARE - MEMBER_BYTES * members)


def unit_capacity(members: Sequence[MemberUse], gpu: Gpu, gpus: int) -> UnitCapacity | None:
    """What members do together on a node; None where they do not fit its memory or time, or are too many."""
    pool = usable_bytes(gpu, gpus, len(members)) - sum(member.weight_bytes for member in members)
    left = 1.0 - sum(member.idle for member in members)
    if len(members) > MOST_MEMBERS or left <= 0 or pool < sum(member.longest_bytes for member in members):
        return None
    time, kv = np.array([(member.request_s, member.kv_bytes) for member in members]).T
    return UnitCapacity(time / left, kv / pool)
