"""What the workers of a gateway share: the use of keys with limits, the work that is admitted, and what they count."""

import asyncio
from itertools import count

from control.gateway.api_error import ApiError
from control.gateway.key_limits import KeyCharge, KeyLimits
from control.gateway.metrics import Merging
from control.gateway.readiness import Readiness
from control.gateway.workers.member import Member
from control.gateway.workers.messages import (
    AskWhole,
    Booked,
    GiveBack,
    Listening,
    Permit,
    Refusal,
    Report,
    Settle,
    State,
    Take,
    ToSupervisor,
    Whole,
)
from control.gateway.workers.totals import Family, Sample, lasting, merged, text

_STATE_S = 2.0
"""How long an answer waits for a worker's report; what it sent last counts then."""


class Exchange:
    """Make it on a running loop."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._limits = KeyLimits()
        self._members: dict[int, Member] = {}
        self._past: list[Family] = []
        """Counts of workers that ended."""
        self.restarts = 0
        self.all_listen = asyncio.Event()
        """All have listened at the same time, once at least."""
        self._asks = count(1)
        self._loop = asyncio.get_running_loop()
        self._answers: set[asyncio.Task[None]] = set()

    def join(self, member: Member) -> None:
        self._members[member.number] = member

    def leave(self, member: Member) -> None:
        """It is gone: what it has counted stays, and what it had open is open no more."""
        del self._members[member.number]
        self._past = merged([], [*self._past, *lasting(member.families)])
        for who, requests in member.open.items():
            self._limits.abandon(who, requests)
        for waiter in member.reports.values():
            if not waiter.done():
                waiter.set_result(None)

    def take_in(self, member: Member, message: ToSupervisor) -> None:
        now_s = self._loop.time()
        if isinstance(message, Take):
            member.pipe.send(self._permit(member, message, now_s))
        elif isinstance(message, Settle):
            member.charge(message.holders, -1)
            self._limits.settle(KeyCharge(message.holders, message.taken, ()), message.tokens, now_s)
        elif isinstance(message, GiveBack):
            member.charge(message.holders, -1)
            self._limits.give_back(KeyCharge(message.holders, message.taken, ()), now_s)
        elif isinstance(message, Booked):
            for other in self._members.values():
                if other is not member:
                    other.pipe.send(message)
        elif isinstance(message, State):
            self._take_state(member, message)
        elif isinstance(message, AskWhole):
            answer = asyncio.create_task(self._answer(member, message.ask))
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)
        elif isinstance(message, Listening):
            member.is_listening = True
            if len(self._listening) == self._workers:
                self.all_listen.set()

    @property
    def _listening(self) -> list[Member]:
        return [member for member in self._members.values() if member.is_listening]

    def _permit(self, member: Member, asked: Take, now_s: float) -> Permit | Refusal:
        try:
            taken = self._limits.take(asked.holders, asked.tokens, now_s, asked.requests)
        except ApiError as e:
            return Refusal(asked.ask, e.status, e.kind, e.message, e.code, e.param, e.headers)
        if taken is None:
            return Permit(asked.ask, ())
        member.charge(taken.holders, asked.requests)
        return Permit(asked.ask, taken.headers)

    def _take_state(self, member: Member, state: State) -> None:
        member.families = state.families
        waiter = member.reports.get(state.ask)
        if waiter is not None and not waiter.done():
            waiter.set_result(state)

    async def _answer(self, asker: Member, ask: int) -> None:
        """Ask all workers how they are, and answer the one that wants to know."""
        listening = self._listening
        states = await asyncio.gather(*(self._state(member) for member in listening))
        # Whose last metrics have gone into the past meanwhile must not be counted twice.
        there = [member for member in listening if self._members.get(member.number) is member]
        families = merged([member.families for member in there], self._past)
        readiness = _of_all([state.readiness for state in states if state is not None])
        asker.pipe.send(Whole(ask, text([*families, *self._own(len(there))]), readiness))

    async def _state(self, member: Member) -> State | None:
        """None: it does not answer."""
        ask = next(self._asks)
        waiter: asyncio.Future[State | None] = self._loop.create_future()
        member.reports[ask] = waiter
        member.pipe.send(Report(ask))
        try:
            async with asyncio.timeout(_STATE_S):
                return await waiter
        except TimeoutError:
            return None
        finally:
            del member.reports[ask]

    def _own(self, workers: int) -> list[Family]:
        """Metrics of the workers as such."""
        about, restarts = "Processes that take connections", "Processes that ended and were started again"
        return [
            _family("workers", about, "gauge", workers),
            _family("worker_restarts", restarts, "counter", self.restarts),
        ]


def _family(name: str, about: str, kind: str, value: float) -> Family:
    name = f"medley_gateway_{name}"
    return Family(name, about, kind, Merging.SUM, [Sample(name + ("_total" if kind == "counter" else ""), {}, value)])


def _of_all(workers: list[Readiness]) -> Readiness:
    """A model is ready where every worker can serve it: nobody knows which one a client meets."""
    ready = set.intersection(*(set(each.ready) for each in workers)) if workers else set[str]()
    known = {name for each in workers for name in (*each.ready, *each.waiting)}
    problems = dict.fromkeys(each.problem for each in workers if each.problem)
    return Readiness(sorted(ready), sorted(known - ready), "; ".join(problems))
