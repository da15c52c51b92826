"""The queue of an executor: which units wait for what, and which are computed together. No socket, clock or torch.

Theory of operation. A unit is a job from its arrival until it is answered, once, whatever becomes of it:

    fetching → ready → computing → (answered)

While its values are on their way it holds nobody up: batches are made of what is ready, in the order of turns: that in
which it became so, but that later units of a large request let those of others pass (`policies.pools.turns`), where
its gateway says so. A batch is of one component, as large as the engine takes it; who is first decides which component
it is of. Nothing is kept of a unit that was answered, so one that is sent again is another job.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from policies.pools.turns import interleaved

Key = TypeVar("Key", bound=Hashable)


class Refusal(StrEnum):
    """Why a unit is not taken, or is given up."""

    FULL = "full"
    TOO_LARGE = "too large"
    """Alone it has more rows than a batch may have."""
    LATE = "late"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Of one component's engine."""

    most_units: int
    most_rows: int


@dataclass(slots=True)
class _Job(Generic[Key]):
    key: Key
    component: str
    due_s: float
    behind_s: float
    rows: int = 0
    turn_s: float = 0.0


class UnitQueue(Generic[Key]):
    """Times are seconds of the caller's clock."""

    def __init__(self, limits: dict[str, BatchLimits], most_waiting: int) -> None:
        """`limits`: by component. `most_waiting`: units that are fetched or ready; more are refused."""
        self._limits, self._most_waiting = limits, most_waiting
        self._fetching: dict[Key, _Job[Key]] = {}
        self._ready: dict[Key, _Job[Key]] = {}
        self._computing: dict[Key, _Job[Key]] = {}
        self._is_busy = False
        """A batch is computed, though nobody may wait for any of it any more."""

    @property
    def waiting(self) -> int:
        return len(self._fetching) + len(self._ready)

    @property
    def computing(self) -> int:
        return len(self._computing)

    @property
    def room(self) -> int:
        return max(0, self._most_waiting - self.waiting)

    def add(self, key: Key, component: str, due_s: float, behind_s: float = 0.0) -> Refusal | None:
        """Take a unit whose values are to be fetched now. `behind_s`: work of its request that it is behind, as of
        `Encode`. Raises ValueError for one that is there already, KeyError for a component that there is no engine
        for."""
        if key in self:
            raise ValueError(f"unit {key} is there already")
        self._limits[component]
        if not self.room:
            return Refusal.FULL
        self._fetching[key] = _Job(key, component, due_s, behind_s)
        return None

    def fetched(self, key: Key, rows: int, now_s: float) -> Refusal | None:
        """The values of a unit are here: `rows` of a batch. One that was cancelled meanwhile changes nothing; one that
        no batch holds is gone with that."""
        job = self._fetching.pop(key, None)
        if job is None:
            return None
        if rows > self._limits[job.component].most_rows:
            return Refusal.TOO_LARGE
        job.rows, job.turn_s = rows, interleaved(now_s, job.behind_s)
        self._ready[key] = job
        return None

    def batch(self) -> tuple[str, tuple[Key, ...]] | None:
        """Take the next batch: its component, and its units in order. None: nothing is ready, or one is computed."""
        if self._is_busy or not self._ready:
            return None
        self._is_busy = True
        in_turn = sorted(self._ready.values(), key=lambda job: job.turn_s)
        first, rows = in_turn[0], 0
        limits = self._limits[first.component]
        for job in (job for job in in_turn if job.component == first.component):
            if len(self._computing) == limits.most_units or rows + job.rows > limits.most_rows:
                break  # a smaller one behind it would pass it again and again
            rows += job.rows
            self._computing[job.key] = self._ready.pop(job.key)
        return first.component, tuple(self._computing)

    def computed(self) -> tuple[Key, ...]:
        """The batch is done: its units that somebody still waits for."""
        done, self._computing, self._is_busy = tuple(self._computing), {}, False
        return done

    def cancel(self, key: Key) -> bool:
        """Forget a unit; tells whether it was there. One that is being computed is computed, for nobody."""
        return any(jobs.pop(key, None) is not None for jobs in self._all())

    def cancel_where(self, is_gone: Callable[[Key], bool]) -> None:
        for key in [key for jobs in self._all() for key in jobs if is_gone(key)]:
            self.cancel(key)

    def late(self, now_s: float) -> tuple[Key, ...]:
        """Give up units that wait longer than they may; those that are computed come in time or not."""
        found = [job.key for jobs in (self._fetching, self._ready) for job in jobs.values() if job.due_s <= now_s]
        for key in found:
            self.cancel(key)
        return tuple(found)

    def __contains__(self, key: object) -> bool:
        return any(key in jobs for jobs in self._all())

    def _all(self) -> Iterator[dict[Key, _Job[Key]]]:
        yield from (self._fetching, self._ready, self._computing)
