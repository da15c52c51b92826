"""Pools that grow and shrink while they serve: the scaling policy on simulated pulses.

Every `PULSE_S` each pool's scaler sees what came, what waits and how many requests were in time, and says what to rent,
wake, put to sleep or release. What is rented serves after its start-up time; what is released finishes what it holds.
Every `PLAN_S` the plan is made again, from the load since the last one, and adopts what was rented in between.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import count
from math import isnan

from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.pool_run import Member, PoolRun
from policies.pools.lateness import ATTAINED_S, Answers
from policies.pools.scaling import PoolScaler, PoolSize, Pulse, Scaling
from policies.pools.sizing import replicas

PULSE_S = 10.0
PLAN_S = 300.0


class Stage(Enum):
    """What a pool does of a request."""

    ENCODE = "encode"
    TEXT = "text"
    WHOLE = "whole"

    def waits(self, request: PoolRequest) -> bool:
        """Whether the stage is not over, for a request that has come to it."""
        if self is Stage.ENCODE:
            return bool(request.images) and isnan(request.encoded_s)
        has_come = self is Stage.WHOLE or not request.images or not isnan(request.encoded_s)
        return has_come and isnan(request.first_token_s)

    def took_s(self, request: PoolRequest) -> float:
        """Seconds of the stage; NaN where it is not over, or the request has none."""
        if self is Stage.ENCODE:
            return request.encoded_s - request.asked_s
        from_s = request.encoded_s if self is Stage.TEXT and request.images else request.asked_s
        return request.first_token_s - from_s


@dataclass(slots=True)
class ScaledPool:
    """One pool, and what its members are made of."""

    stage: Stage
    scaler: PoolScaler
    make: Callable[[str], Member]
    """A member of this id."""
    units_of: Callable[[PoolRequest], float]
    """Work of a request, in the unit of the scaler's capacity."""
    gpus: int
    """Of a member."""
    planned: int
    """Members to begin with."""
    start_up_s: float
    """Until what is rented serves."""
    due_share: float = 1.0
    """Part of the time to the first token that the stage may take."""
    asleep: int = 0
    """Members on nodes that are held anyway, which can wake."""
    wake_s: float = 1.0


@dataclass(slots=True)
class _Members:
    planned: list[str] = field(default_factory=list)
    awake: list[str] = field(default_factory=list)
    rented: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        return [*self.planned, *self.awake, *self.rented]


@dataclass(frozen=True, slots=True)
class Held:
    """A member, from when it was asked for until it was gone."""

    stage: Stage
    gpus: int
    from_s: float
    until_s: float

    @property
    def gpu_s(self) -> float:
        return self.gpus * (self.until_s - self.from_s)


class ScaledRun:
    """Pools that are scaled while they serve, until `until_s`."""

    def __init__(self, run: PoolRun, pools: Sequence[ScaledPool], until_s: float) -> None:
        self.held: list[Held] = []
        self.changes: list[tuple[float, Stage, Scaling]] = []
        """What was changed between plans, and when."""
        self._run, self._pools, self._until_s = run, pools, until_s
        self._members = {pool.stage: _Members() for pool in pools}
        self._asked: dict[str, tuple[ScaledPool, float]] = {}
        """Member → its pool, and when it was asked for."""
        self._starting: set[str] = set()
        self._came: deque[PoolRequest] = deque()
        """Requests since the last plan."""
        self._open: dict[Stage, list[PoolRequest]] = {pool.stage: [] for pool in pools}
        """Those whose stage is not over."""
        self._ended: dict[Stage, deque[tuple[float, bool]]] = {pool.stage: deque() for pool in pools}
        """(when a request's stage was seen to be over, whether it was in time)."""
        self._on_held: set[str] = set()
        """Members that woke on nodes which are held anyway: they cost nothing more."""
        self._numbers = count()
        run.on_gone = self._gone

    def serve(self, requests: Sequence[PoolRequest]) -> None:
        """Serve requests in order of arrival; times are written into them, what was held into `held`."""
        for pool in self._pools:
            for _ in range(pool.planned):
                self._launch(pool, self._members[pool.stage].planned, 0.0)
        for request in requests:
            self._run.at(request.asked_s, partial(self._note, request))
        self._run.at(PULSE_S, self._pulse)
        self._run.at(PLAN_S, self._plan)
        self._run.run(requests, self._until_s)
        for name in list(self._asked):
            self._close(name, self._until_s)

    def _note(self, request: PoolRequest) -> None:
        self._came.append(request)
        for pool in self._pools:
            if pool.stage is not Stage.ENCODE or request.images:
                self._open[pool.stage].append(request)

    def _pulse(self) -> None:
        for pool in self._pools:
            change = pool.scaler.decide(self._run.now_s, self._seen(pool), self._size(pool))
            if change.why:
                self.changes.append((self._run.now_s, pool.stage, change))
            self._apply(pool, change)
        if self._run.now_s + PULSE_S < self._until_s:
            self._run.at(self._run.now_s + PULSE_S, self._pulse)

    def _seen(self, pool: ScaledPool) -> Pulse:
        since_s = self._run.now_s - PULSE_S
        came = 0.0
        for request in reversed(self._came):
            if request.asked_s <= since_s:
                break
            came += pool.units_of(request)
        took = [(pool.stage.took_s(each), each) for each in self._open[pool.stage]]
        ended = [(seconds, each) for seconds, each in took if not isnan(seconds)]
        self._open[pool.stage] = [each for seconds, each in took if isnan(seconds)]
        pending = sum(pool.units_of(each) for each in self._open[pool.stage] if pool.stage.waits(each))
        counted = self._ended[pool.stage]
        counted.extend((self._run.now_s, seconds <= pool.due_share * each.due_s) for seconds, each in ended)
        while counted and counted[0][0] < self._run.now_s - ATTAINED_S:
            counted.popleft()
        in_time = sum(kept for _, kept in counted)
        return Pulse(came / PULSE_S, pending, Answers(len(counted), in_time))

    def _size(self, pool: ScaledPool) -> PoolSize:
        own = self._members[pool.stage]
        starting = sum(name in self._starting for name in own.all)
        return PoolSize(len(own.planned), len(own.awake), pool.asleep - len(own.awake), len(own.rented), starting)

    def _apply(self, pool: ScaledPool, change: Scaling) -> None:
        own = self._members[pool.stage]
        for _ in range(change.wake):
            self._on_held.add(self._launch(pool, own.awake, pool.wake_s))
        for _ in range(change.rent):
            self._launch(pool, own.rented, pool.start_up_s)
        for _ in range(change.release):
            self._release(own.rented)
        for _ in range(change.sleep):
            self._release(own.awake)

    def _plan(self) -> None:
        """⌈load / capacity⌉ of the load since the last plan; what is rented and planned now are one."""
        for pool in self._pools:
            load = sum(map(pool.units_of, self._came)) / PLAN_S
            own, wanted = self._members[pool.stage], replicas(load, pool.scaler.capacity)
            for _ in range(wanted - len(own.planned) - len(own.rented)):
                self._launch(pool, own.rented, pool.start_up_s)
            together = own.planned + own.rented
            own.planned, own.rented = together[:wanted], together[wanted:]
        self._came.clear()
        if self._run.now_s + PLAN_S < self._until_s:
            self._run.at(self._run.now_s + PLAN_S, self._plan)

    def _launch(self, pool: ScaledPool, into: list[str], after_s: float) -> str:
        name = f"{pool.stage.value}-{next(self._numbers)}"
        into.append(name)
        self._asked[name] = pool, self._run.now_s
        self._starting.add(name)
        if after_s:
            self._run.at(self._run.now_s + after_s, partial(self._ready, name))
        else:
            self._ready(name)
        return name

    def _ready(self, name: str) -> None:
        if name in self._starting:
            self._starting.discard(name)
            self._run.add([self._asked[name][0].make(name)])

    def _release(self, of: list[str]) -> None:
        """Let one go: one that does not serve yet, else the one with the least to do."""
        name = next((each for each in of if each in self._starting), None)
        if name is None:
            name = min(of, key=self._run.load_of)
        of.remove(name)
        if name in self._starting:
            self._starting.discard(name)
            self._gone(name)
        else:
            self._run.drain(name)

    def _gone(self, name: str) -> None:
        self._close(name, self._run.now_s)

    def _close(self, name: str, until_s: float) -> None:
        pool, from_s = self._asked.pop(name)
        if name not in self._on_held:
            self.held.append(Held(pool.stage, pool.gpus, from_s, until_s))
