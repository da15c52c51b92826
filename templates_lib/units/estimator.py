"""The throughput of a shared unit (MuxServe, equations 2 and 3 and appendix A.2).

Prefill jobs of the members run one after the other, and decode jobs side by side. A batch of b requests of member m is
through after Σ t_p + t_d · l_o, so m does b / (Σ t_p + t_d · l_o) requests/s, up to what is asked of it. Each member
has the smallest batch that carries its rate, as far as its part of the KV cache holds it. The cache is split by rate
times bytes of a request, so that the members' use of it is as their rates are (equation 2).

`printed` is that formula. `contended` corrects what it leaves out: jobs that run side by side share the bandwidth of
the memory, and shares that add up to more than the GPUs are taken in turn. It is never more than `printed`. `in_turn`
is what the paper compares with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from templates_lib.units.contention import Slowdown, slowdown_of
from templates_lib.units.member import Floats, UnitMember


@dataclass(frozen=True, slots=True)
class MemberEstimate:
    """What a member of a unit is estimated to do."""

    name: str
    requests_per_s: float
    batch: int
    """Requests of one turn of its prefill and of each of its decode jobs."""
    cycle_s: float
    """Seconds in which such a batch is through, those of the other members' prefills included."""
    decode_s: float
    """Seconds between two tokens of a request while nothing is prefilled."""


@dataclass(frozen=True, slots=True)
class UnitEstimate:
    """What a unit is estimated to do: F of equation 2, member by member."""

    members: tuple[MemberEstimate, ...]

    @property
    def requests_per_s(self) -> float:
        return sum(member.requests_per_s for member in self.members)


def printed(members: Sequence[UnitMember], kv_bytes: float) -> UnitEstimate | None:
    """Equation 3 as the paper prints it. `kv_bytes`: the KV cache of all members, over all GPUs. None where the cache
    does not hold one request of each at once."""
    return _estimate(members, kv_bytes, [Slowdown()] * len(members))


def contended(members: Sequence[UnitMember], kv_bytes: float) -> UnitEstimate | None:
    """Equation 3 with what jobs take longer beside each other; None as of `printed`.

    Jobs are slowed down for the batches that they turn out to need. Slower jobs need larger batches, so both are found
    in turns, from those of `printed` upwards, until they agree.
    """
    found = printed(members, kv_bytes)
    slow = [Slowdown()] * len(members)
    while found is not None:
        batches = [member.batch for member in found.members]
        now = [each.at_least(before) for each, before in zip(slowdown_of(members, batches), slow, strict=True)]
        found = _estimate(members, kv_bytes, now, batches)
        if now == slow:
            break
        slow = now
    return found


def in_turn(members: Sequence[UnitMember], kv_bytes: float) -> UnitEstimate | None:
    """Temporal multiplexing, the paper's baseline: decode jobs take turns as prefill jobs do. Members have all of the
    GPUs in their turn, so their `decode_share` should be 1. None as of `printed`."""
    return _estimate(members, kv_bytes, [Slowdown()] * len(members), decodes_take_turns=True)


def _estimate(
    members: Sequence[UnitMember],
    kv_bytes: float,
    slow: Sequence[Slowdown],
    at_least: Sequence[int] = (),
    *,
    decodes_take_turns: bool = False,
) -> UnitEstimate | None:
    """The smallest batches that carry the rates together, none below `at_least`.

    A larger batch of one member makes the others wait for its jobs and need larger ones too. From the smallest batches
    upwards, each raised only as far as the others need now, the members come to the least batches that agree.
    """
    if sum(member.kv_bytes for member in members) > kv_bytes:
        return None
    caps = _batch_caps(members, kv_bytes)
    batches = [max(1, least) for least in at_least] or [1] * len(members)
    prefills = [member.times.prefill_s * each.prefill for member, each in zip(members, slow, strict=True)]
    decodes = [member.times.decode_s * each.decode for member, each in zip(members, slow, strict=True)]

    def beside(i: int) -> tuple[float, float]:
        """Seconds of the others' prefills in a cycle, and of the others' decode jobs between two of this member's."""
        others = [k for k in range(len(members)) if k != i]
        waits = sum(float(decodes[k][batches[k] - 1]) for k in others) if decodes_take_turns else 0.0
        return sum(float(prefills[k][batches[k] - 1]) for k in others), waits

    settled = False
    while not settled:
        settled = True
        for i, member in enumerate(members):
            prefill, decode = beside(i)
            jobs = prefills[i][: caps[i]] + (decodes[i][: caps[i]] + decode) * member.output_tokens
            wanted = _least_batch(prefill + jobs, member.requests_per_s)
            if wanted > batches[i]:
                batches[i], settled = wanted, False
    found = []
    for i, (member, batch) in enumerate(zip(members, batches, strict=True)):
        prefill, decode = beside(i)
        between = float(decodes[i][batch - 1]) + decode
        cycle = prefill + float(prefills[i][batch - 1]) + between * member.output_tokens
        found.append(MemberEstimate(member.name, min(batch / cycle, member.requests_per_s), batch, cycle, between))
    return UnitEstimate(tuple(found))


def _batch_caps(members: Sequence[UnitMember], kv_bytes: float) -> list[int]:
    """Largest batches: the cache beyond one request of each is split by rate times bytes of a request."""
    spare = kv_bytes - sum(member.kv_bytes for member in members)
    per_rate = spare / sum(member.requests_per_s * member.kv_bytes for member in members)
    return [min(1 + int(per_rate * member.requests_per_s), member.times.largest) for member in members]


def _least_batch(cycles_s: Floats, requests_per_s: float) -> int:
    """Return the smallest batch that carries a rate; the one that carries the most where none does."""
    rates = np.arange(1, len(cycles_s) + 1) / cycles_s
    enough = rates >= requests_per_s
    return int(enough.argmax() if enough.any() else rates.argmax()) + 1
