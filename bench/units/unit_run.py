"""A shared unit under load on a simulated clock: the production scheduler (`agents.unit.core`), and times of steps in
place of engines."""

import heapq
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from agents.unit.core import UnitCore, UnitJob, UnitMemberShares
from agents.unit.grants import Grants
from policies.shared_units.block_quotas import BlockDemand
from policies.shared_units.dispatch import JobPhase, UnitDispatch
from templates_lib.units.contention import bandwidth_left, slower

MOST_PROMPTS = 32
"""Prompts of one prefill job."""


class StepTimes(Protocol):
    """Times of a member's jobs on its shares of the GPUs, alone."""

    def prefill_s(self, requests: int, tokens: float) -> float:
        """Of prompts of so many tokens each in the mean."""
        ...

    def decode_s(self, requests: int, context: float) -> float:
        """One token for each of the requests, with so many tokens in the cache in the mean."""
        ...

    def reads(self, phase: JobPhase, requests: int, tokens: float) -> float:
        """Share of the memory's bandwidth that such a job takes while it runs."""
        ...


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """A member of a unit and its requests."""

    name: str
    requests_per_s: float
    prompt_tokens: float
    """Mean; lengths are drawn from geometric distributions."""
    output_tokens: float
    longest: int
    """Most tokens of one request."""
    blocks_per_token: float
    prefill_share: float
    decode_share: float
    times: StepTimes

    def blocks(self, tokens: int) -> int:
        return int(np.ceil(tokens * self.blocks_per_token))


@dataclass(slots=True, eq=False)
class Request:
    arrived_s: float
    prompt: int
    output: int
    produced: int = 0
    blocks: int = 0
    finished_s: float = np.inf

    @property
    def tokens(self) -> int:
        return self.prompt + self.produced


@dataclass(slots=True)
class MemberState:
    """A `MemberQueue`: continuous batching within the blocks that the unit leaves to the member. Where a request's next
    token has no block, the youngest request gives up its own, and is prefilled again."""

    place: int
    load: MemberLoad
    grants: Grants | None = None
    waiting: list[Request] = field(default_factory=list)
    """In order of arrival."""
    running: list[Request] = field(default_factory=list)
    """Between jobs, in order of arrival."""
    since_s: float = 0.0
    preemptions: int = 0

    def first_waiting(self) -> tuple[float, int] | None:
        return (self.waiting[0].arrived_s, self._needed(self.waiting[0])) if self.waiting else None

    def decodes_since_s(self) -> float | None:
        return self.since_s if self.running else None

    def waiting_blocks(self) -> int:
        return sum(self._needed(request) for request in self.waiting)

    def begin(self, phase: JobPhase) -> list[Request]:
        """The batch of a job, which holds its blocks."""
        if phase is JobPhase.PREFILL:
            return self._begin_prefill()
        return self._begin_decode()

    def end(self, batch: Sequence[Request], now_s: float) -> None:
        """Every request of the batch has one more token."""
        if not self.running:
            self.since_s = now_s
        for request in batch:
            request.produced += 1
            if request.produced >= request.output:
                request.finished_s = now_s
                self._give(request)
            else:
                insort(self.running, request, key=lambda each: each.arrived_s)

    def _needed(self, request: Request) -> int:
        return self.load.blocks(request.tokens + 1)

    def _begin_prefill(self) -> list[Request]:
        batch = []
        while self.waiting and len(batch) < MOST_PROMPTS and self._take(self.waiting[0]):
            batch.append(self.waiting.pop(0))
        return batch

    def _begin_decode(self) -> list[Request]:
        batch: list[Request] = []
        while self.running:
            request = self.running.pop(0)
            while not self._take(request):
                victim = self.running.pop() if self.running else request
                self._give(victim)
                self.preemptions += 1
                insort(self.waiting, victim, key=lambda each: each.arrived_s)
                if victim is request:
                    break
            else:
                batch.append(request)
        return batch

    def _take(self, request: Request) -> bool:
        more = self._needed(request) - request.blocks
        if more > self._pool.left(self.place):
            return False
        self._pool.take(self.place, more)
        request.blocks += more
        return True

    def _give(self, request: Request) -> None:
        self._pool.give(self.place, request.blocks)
        request.blocks = 0

    @property
    def _pool(self) -> Grants:
        if self.grants is None:
            raise RuntimeError("a member begins no job before its unit has blocks")
        return self.grants


@dataclass(frozen=True, slots=True)
class UnitRun:
    """What a unit did until the end of a run."""

    requests: tuple[tuple[Request, ...], ...]
    """By member."""
    until_s: float
    block_seconds: tuple[float, ...]
    """Blocks that were held, times how long, by member."""
    quotas: tuple[int, ...]
    """At the end."""
    preemptions: int

    @property
    def requests_per_s(self) -> tuple[float, ...]:
        """Requests that were finished, by member."""
        return tuple(sum(r.finished_s <= self.until_s for r in each) / self.until_s for each in self.requests)

    @property
    def block_shares(self) -> tuple[float, ...]:
        total = sum(self.block_seconds) or 1.0
        return tuple(each / total for each in self.block_seconds)


def run_unit(
    loads: Sequence[MemberLoad], requests: Sequence[Sequence[Request]], pool: int, policy: UnitDispatch, until_s: float
) -> UnitRun:
    """Serve the requests of each member. `pool`: blocks of the KV cache. Raises ValueError where it does not hold one
    longest request of each."""
    clock = _UnitClock(loads, pool, policy)
    for place, each in enumerate(requests):
        for request in each:
            clock.at(request.arrived_s, _Arrival(place, request))
    clock.run(until_s)
    preemptions = sum(state.preemptions for state in clock.states)
    block_seconds = tuple(float(each) for each in clock.block_seconds)
    return UnitRun(tuple(map(tuple, requests)), until_s, block_seconds, clock.core.grants.quotas, preemptions)


def poisson_requests(
    load: MemberLoad, duration_s: float, rng: np.random.Generator, start_s: float = 0.0
) -> list[Request]:
    """Requests of a member from `start_s` on."""
    count = rng.poisson(load.requests_per_s * duration_s)
    prompts = np.minimum(rng.geometric(1 / load.prompt_tokens, count), load.longest // 2)
    outputs = np.minimum(rng.geometric(1 / load.output_tokens, count), load.longest // 2)
    times = np.sort(rng.uniform(start_s, start_s + duration_s, count))
    return [Request(float(t), int(p), int(n)) for t, p, n in zip(times, prompts, outputs, strict=True)]


@dataclass(frozen=True, slots=True)
class _Arrival:
    member: int
    request: Request


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    job: UnitJob
    requests: list[Request]
    reads: float


_ADAPT = "adapt"
_Event = _Arrival | _Batch | str


class _UnitClock:
    """Events of a unit in order of their time. Jobs are slowed down by those that are under way when they begin."""

    def __init__(self, loads: Sequence[MemberLoad], pool: int, policy: UnitDispatch) -> None:
        self._loads = loads
        self.states = [MemberState(place, load) for place, load in enumerate(loads)]
        self.core = UnitCore([_shares(load) for load in loads], self.states, pool, policy, 0.0)
        for state in self.states:
            state.grants = self.core.grants
        self.block_seconds = np.zeros(len(loads))
        self._events: list[tuple[float, int, _Event]] = []
        self._order = 0
        self._now_s = 0.0
        self._batches: list[_Batch] = []

    def at(self, when_s: float, event: _Event) -> None:
        self._order += 1
        heapq.heappush(self._events, (when_s, self._order, event))

    def run(self, until_s: float) -> None:
        """Until then, or until nothing is left to happen."""
        if self.core.adapts_s < np.inf:
            self.at(self.core.adapts_s, _ADAPT)
        while self._events and self._events[0][0] <= until_s:
            when_s, _, event = heapq.heappop(self._events)
            self.block_seconds += np.array(self.core.grants.held) * (when_s - self._now_s)
            self._now_s = when_s
            self._happen(event)
            self._begin_jobs()

    def _happen(self, event: _Event) -> None:
        if isinstance(event, _Arrival):
            self.states[event.member].waiting.append(event.request)
        elif isinstance(event, _Batch):
            self._batches.remove(event)
            self.states[event.job.member].end(event.requests, self._now_s)
            self.core.end(event.job)
        else:
            self.core.adapt(self._now_s)
            if self._events:
                self.at(self.core.adapts_s, _ADAPT)

    def _begin_jobs(self) -> None:
        while (job := self.core.next_job()) is not None:
            requests, load = self.states[job.member].begin(job.phase), self._loads[job.member]
            if not requests:  # all of them gave up their blocks
                self.core.end(job)
                continue
            tokens = sum(request.tokens for request in requests) / len(requests)
            of_phase = load.times.prefill_s if job.phase is JobPhase.PREFILL else load.times.decode_s
            batch = _Batch(job, requests, load.times.reads(job.phase, len(requests), tokens))
            self._batches.append(batch)
            left = bandwidth_left([each.reads for each in self._batches])
            self.at(self._now_s + of_phase(len(requests), tokens) * slower(batch.reads, left), batch)


def _shares(load: MemberLoad) -> UnitMemberShares:
    mean = (load.prompt_tokens + load.output_tokens) * load.blocks_per_token
    demand = BlockDemand(load.requests_per_s, mean, load.blocks(load.longest + 1))
    return UnitMemberShares(load.prefill_share, load.decode_share, demand)
