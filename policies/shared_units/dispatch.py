"""Which job of which member of a shared unit begins next: adaptive batch scheduling (MuxServe, Algorithm 3), and what
the paper compares it with (Figure 9).

A policy is asked again until it has nothing to begin. It keeps whose turn it is and no more; what there is to do it is
told. The name of a policy is a part of a template's identity: what a unit can do is certified under it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Protocol

from templates_lib.units.contention import MOST_SHARES

_ROUNDING = 1e-9


class JobPhase(Enum):
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class MemberWork:
    """What a member has to do that is not under way."""

    prefill_share: float
    decode_share: float
    """Shares of the GPUs' processors that a job of it takes."""
    prefill_since_s: float = inf
    """When the first request that waits came, if it could begin: its blocks are there and no prefill of the member is
    under way. Infinite where there is none."""
    decode_since_s: float = inf
    """Since when a decode job could begin; infinite where there is none, or one is under way."""
    waiting_since_s: float = inf
    """When the first request that waits came, whether its blocks are there or not."""

    def can(self, phase: JobPhase) -> bool:
        return (self.prefill_since_s if phase is JobPhase.PREFILL else self.decode_since_s) < inf

    def share(self, phase: JobPhase) -> float:
        return self.prefill_share if phase is JobPhase.PREFILL else self.decode_share


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Jobs of the whole unit that are under way."""

    shares: float
    """Their shares together."""
    prefills: int
    jobs: int

    def takes(self, share: float) -> bool:
        """Tell whether a job of such a share may begin; one alone always may."""
        return not self.jobs or self.shares + share <= MOST_SHARES + _ROUNDING


Choice = tuple[int, JobPhase]
"""A member by its place, and the job that it begins."""


class UnitDispatch(Protocol):
    @property
    def has_quotas(self) -> bool:
        """Whether members hold blocks within quotas; else whoever comes first takes them."""
        ...

    def next_job(self, members: Sequence[MemberWork], under_way: UnderWay) -> Choice | None:
        """Return the next job to begin now; None where nothing is to begin until something else has ended or come."""
        ...


class AdaptiveBatches:
    """`adbs-v1`: one prefill at a time, of each member in turn; decodes of each in turn fill what is left.

    A prefill that lacks processors stops new decodes until it has them. One that lacks blocks does not, as the blocks
    that it waits for are held by requests that decode (the paper's pseudo-code does not tell the two apart, and would
    wait for ever): the next member's prefill is looked at instead.
    """

    has_quotas = True

    def __init__(self) -> None:
        self._turns = dict.fromkeys(JobPhase, 0)

    def next_job(self, members: Sequence[MemberWork], under_way: UnderWay) -> Choice | None:
        if not under_way.prefills:
            member = self._next(members, JobPhase.PREFILL)
            if member is not None:
                return self._begin(members, under_way, member, JobPhase.PREFILL)
        member = self._next(members, JobPhase.DECODE)
        return None if member is None else self._begin(members, under_way, member, JobPhase.DECODE)

    def _next(self, members: Sequence[MemberWork], phase: JobPhase) -> int | None:
        for place in in_turn(self._turns[phase], len(members)):
            if members[place].can(phase):
                return place
        return None

    def _begin(self, members: Sequence[MemberWork], under_way: UnderWay, member: int, phase: JobPhase) -> Choice | None:
        if not under_way.takes(members[member].share(phase)):
            return None  # its turn stays: a smaller job of another may not go before it for ever
        self._turns[phase] = member + 1
        return member, phase


class RoundRobin:
    """`round-robin-v1`: members in turn, each its prefill if it has one, else its decode; side by side as far as shares
    go, one prefill at a time. Blocks go to whoever comes first."""

    has_quotas = False

    def __init__(self) -> None:
        self._turn = 0

    def next_job(self, members: Sequence[MemberWork], under_way: UnderWay) -> Choice | None:
        for place in in_turn(self._turn, len(members)):
            member = members[place]
            phases = [p for p in JobPhase if member.can(p) and not (p is JobPhase.PREFILL and under_way.prefills)]
            if phases:
                if not under_way.takes(member.share(phases[0])):
                    return None
                self._turn = place + 1
                return place, phases[0]
        return None


class FirstCome:
    """`fcfs-v1`: one job at a time, the one that has been ready for longest. A request that waits for blocks holds up
    the prefills of all that came later. Blocks go to whoever comes first."""

    has_quotas = False

    def next_job(self, members: Sequence[MemberWork], under_way: UnderWay) -> Choice | None:
        if under_way.jobs:
            return None
        first = min((member.waiting_since_s for member in members), default=inf)
        ready = [
            (since, place, phase)
            for place, member in enumerate(members)
            for phase, since in ((JobPhase.PREFILL, member.prefill_since_s), (JobPhase.DECODE, member.decode_since_s))
            if since < inf and (phase is JobPhase.DECODE or since <= first)
        ]
        if not ready:
            return None
        _, place, phase = min(ready, key=lambda each: each[:2])
        return place, phase


UNIT_DISPATCHES: dict[str, Callable[[], UnitDispatch]] = {
    "adbs-v1": AdaptiveBatches,
    "round-robin-v1": RoundRobin,
    "fcfs-v1": FirstCome,
}
"""Name → what makes a policy for one unit."""


def in_turn(first: int, count: int) -> list[int]:
    """Places from `first` on, around."""
    return [(first + i) % count for i in range(count)]
