"""The scheduler of a shared unit, without sockets, clocks or engines: it says which job of which member begins when.

Each member has a queue of its own, which knows its requests and makes the batch of a job (`MemberQueue`). The unit
knows no request. It has what members share: the processors, of which jobs that run side by side take their shares, and
the blocks of the KV cache, of which each member holds what its quota allows. What begins next is up to a policy
(`policies.shared_units.dispatch`), quotas are up to `policies.shared_units.block_quotas`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from agents.unit.grants import Grants
from policies.shared_units.block_quotas import PERIOD_S, BlockDemand, BlockUse, adapted_quotas, initial_quotas
from policies.shared_units.dispatch import JobPhase, MemberWork, UnderWay, UnitDispatch


class MemberQueue(Protocol):
    """The requests of one member."""

    def first_waiting(self) -> tuple[float, int] | None:
        """When the first request that waits came, and the blocks that it needs to begin; None where none waits."""
        ...

    def decodes_since_s(self) -> float | None:
        """Since when there are requests to decode that are in no job; None where there are none."""
        ...

    def waiting_blocks(self) -> int:
        """Blocks that all requests that wait need to begin."""
        ...


@dataclass(frozen=True, slots=True)
class UnitMemberShares:
    """What a member's jobs take of the GPUs' processors, and what it is expected to need of the KV cache."""

    prefill: float
    decode: float
    demand: BlockDemand


@dataclass(frozen=True, slots=True)
class UnitJob:
    """A job that is to begin now. The member makes its batch of what blocks are left to it (`Grants.left`)."""

    member: int
    phase: JobPhase


class UnitCore:
    """Use: ask `next_job` until it has none; after each let the member take blocks from `grants` and begin. Tell when a
    job has ended (`end`), and ask again then, and whenever a request has come."""

    def __init__(
        self,
        members: Sequence[UnitMemberShares],
        queues: Sequence[MemberQueue],
        pool: int,
        dispatch: UnitDispatch,
        now_s: float,
        grants: Grants | None = None,
    ) -> None:
        """`pool`: blocks of the KV cache. `grants`: of them, with quotas; None: they are made here. Raises ValueError
        where the pool does not hold one longest request of each."""
        self._members = tuple(members)
        self._queues = tuple(queues)
        self._dispatch = dispatch
        if grants is None:
            quotas = initial_quotas(pool, [member.demand for member in members])
            grants = Grants(pool, quotas if dispatch.has_quotas else [pool] * len(members))
        self.grants = grants
        self._under_way: list[UnitJob] = []
        self._adapts_s = now_s + PERIOD_S

    @property
    def adapts_s(self) -> float:
        """When quotas are looked at next; infinite where there are none."""
        return self._adapts_s if self._dispatch.has_quotas else inf

    def next_job(self) -> UnitJob | None:
        """Return a job that is to begin now, as under way; None where none is."""
        running = self._under_way
        under_way = UnderWay(
            sum(self._share(job) for job in running),
            sum(job.phase is JobPhase.PREFILL for job in running),
            len(running),
        )
        choice = self._dispatch.next_job([self._work(place) for place in range(len(self._members))], under_way)
        if choice is None:
            return None
        job = UnitJob(*choice)
        running.append(job)
        return job

    def end(self, job: UnitJob) -> None:
        """A job is over. Raises ValueError for one that is not under way."""
        self._under_way.remove(job)

    def adapt(self, now_s: float) -> None:
        """Move quotas by what was used since the last time, if it is time to."""
        if now_s < self.adapts_s:
            return
        self._adapts_s = now_s + PERIOD_S
        used, quotas = self.grants.most_held(), self.grants.quotas
        uses = [
            BlockUse(quota, most, queue.waiting_blocks(), member.demand.least)
            for quota, most, queue, member in zip(quotas, used, self._queues, self._members, strict=True)
        ]
        self.grants.change(adapted_quotas(uses))

    def _share(self, job: UnitJob) -> float:
        member = self._members[job.member]
        return member.prefill if job.phase is JobPhase.PREFILL else member.decode

    def _work(self, place: int) -> MemberWork:
        member, queue = self._members[place], self._queues[place]
        running = {job.phase for job in self._under_way if job.member == place}
        first, decodes = queue.first_waiting(), queue.decodes_since_s()
        since = inf if first is None else first[0]
        fits = first is not None and first[1] <= self.grants.left(place) and JobPhase.PREFILL not in running
        return MemberWork(
            member.prefill,
            member.decode,
            prefill_since_s=since if fits else inf,
            decode_since_s=inf if decodes is None or JobPhase.DECODE in running else decodes,
            waiting_since_s=since,
        )
