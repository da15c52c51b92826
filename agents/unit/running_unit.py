"""A unit whose members are processes: what they ask and say comes in, whose job begins goes out. No socket, clock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agents.unit.core import UnitCore, UnitJob, UnitMemberShares
from agents.unit.promised_grants import PromisedGrants
from policies.shared_units.block_quotas import initial_quotas
from policies.shared_units.dispatch import AdaptiveBatches, JobPhase

PATIENCE_S, LONGEST_JOB_S = 5.0, 60.0
"""The others wait at least, and at most, for so long for a job to end. Then they go on without it: its engine hangs, or
is slower than ever, and computes beside them."""
_LONGER = 3.0
"""In between, they wait for so many times the longest job that the member has had."""


@dataclass(slots=True)
class _Asked:
    """What a member waits for, as `agents.unit.core.MemberQueue`. Its own scheduler has made the batch of its next job,
    and counted the blocks of that."""

    since_s: dict[JobPhase, float] = field(default_factory=dict)
    wanted: int = 0

    def first_waiting(self) -> tuple[float, int] | None:
        since_s = self.since_s.get(JobPhase.PREFILL)
        return None if since_s is None else (since_s, 0)

    def decodes_since_s(self) -> float | None:
        return self.since_s.get(JobPhase.DECODE)

    def waiting_blocks(self) -> int:
        return self.wanted


class RunningUnit:
    """Members are numbered from 0. An engine has one job at a time. Ask `begin` after each call, and at every beat."""

    def __init__(self, members: Sequence[UnitMemberShares], pool: int, now_s: float) -> None:
        """`pool`: blocks of the KV cache. Raises ValueError where it does not hold one longest request of each."""
        self.grants = PromisedGrants(pool, initial_quotas(pool, [member.demand for member in members]))
        self._least = [member.demand.least for member in members]
        self._asked = [_Asked() for _ in members]
        self._core = UnitCore(members, self._asked, pool, AdaptiveBatches(), now_s, self.grants)
        self._jobs: dict[int, UnitJob] = {}
        """Member → its job, while it is its turn."""
        self._began_s: dict[int, float] = {}
        """Member → since when it has a job, its turn may be over."""
        self._longest_s = [0.0] * len(members)
        """The longest of the jobs that each has ended."""

    def most(self, member: int) -> int:
        """Return the blocks that a member can ever have."""
        return self.grants.pool - sum(self._least) + self._least[member]

    def ask(self, member: int, phase: JobPhase, now_s: float) -> None:
        """An engine waits to begin a job. Raises ValueError where it has one already."""
        if member in self._began_s or self._asked[member].since_s:
            raise ValueError(f"member {member} asks for a turn while it has one")
        self._asked[member].since_s[phase] = now_s

    def end(self, member: int, now_s: float) -> None:
        """A member's job is over."""
        took_s = now_s - self._began_s.get(member, now_s)
        self._longest_s[member] = max(self._longest_s[member], took_s)
        self.drop(member)

    def drop(self, member: int) -> None:
        """A member's engine is gone; it need not have a job."""
        self._asked[member].since_s.clear()
        self._began_s.pop(member, None)
        self._pass_on(member)

    def begin(self, now_s: float) -> Iterator[int]:
        """Yield the members whose jobs begin now, after what is due by the clock."""
        for member, since_s in self._began_s.items():
            if now_s - since_s > min(LONGEST_JOB_S, max(PATIENCE_S, _LONGER * self._longest_s[member])):
                self._pass_on(member)
        self._core.adapt(now_s)
        while (job := self._core.next_job()) is not None:
            self._asked[job.member].since_s.clear()
            self._jobs[job.member], self._began_s[job.member] = job, now_s
            yield job.member

    def _pass_on(self, member: int) -> None:
        """It is not its turn any more, if it was."""
        job = self._jobs.pop(member, None)
        if job is not None:
            self._core.end(job)

    def renew(self, member: int, counted: int, wanted: int) -> int:
        """A member's scheduler counts on so many blocks, and its requests wait for so many; return how many it may
        count on from now on."""
        self._asked[member].wanted = max(0, wanted)
        return self.grants.renew(member, counted, is_short=wanted > 0)

    def leave(self, member: int) -> None:
        """A member's scheduler is gone, and its requests with it."""
        self._asked[member].wanted = 0
        self.grants.forget(member)
