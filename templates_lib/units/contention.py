"""How much longer jobs of a unit take beside each other than alone: they share the memory's bandwidth and the GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

from templates_lib.units.member import UnitMember

MOST_SHARES = 1.2
"""Shares of jobs that run side by side may add up to 120 %: few use all of theirs all the time (MuxServe's code)."""
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Time of a member's jobs beside those of others, over their time alone."""

    prefill: float = 1.0
    decode: float = 1.0

    def at_least(self, other: "Slowdown") -> "Slowdown":
        return Slowdown(max(self.prefill, other.prefill), max(self.decode, other.decode))


def slowdown_of(members: Sequence[UnitMember], batches: Sequence[int]) -> list[Slowdown]:
    """Return the slow-down of each member's jobs, all members with such batches.

    Decode jobs of all members run at once, in turns where their shares add up to more than `MOST_SHARES`. A prefill job
    runs beside the decode jobs of the others: its own batch decodes afterwards.
    """
    turns = max(1.0, sum(member.decode_share for member in members) / MOST_SHARES)
    reads = [float(m.times.decode_reads[b - 1]) / turns for m, b in zip(members, batches, strict=True)]
    decoding = bandwidth_left(reads)
    found = []
    for i, (member, batch) in enumerate(zip(members, batches, strict=True)):
        prefill = float(member.times.prefill_reads[batch - 1])
        beside = bandwidth_left([prefill, *reads[:i], *reads[i + 1 :]])
        found.append(Slowdown(slower(prefill, beside), slower(reads[i] * turns, decoding) * turns))
    return found


def slower(reads: float, bandwidth: float) -> float:
    """Time of a job that gets a part of the bandwidth that it could use, over its time with all of it. `reads`: the
    share of its time in which it waits for memory."""
    return 1.0 + reads * (1.0 / bandwidth - 1.0)


def bandwidth_left(reads: Sequence[float]) -> float:
    """Return the part of the bandwidth that each job could use which all of them get at once: the most with which they
    take no more than there is. `reads`: what each takes alone, in shares of the bandwidth."""
    if sum(reads) <= 1.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = sum(each / slower(each, middle) for each in reads) <= 1.0
        low, high = (middle, high) if fits else (low, middle)
    return low
