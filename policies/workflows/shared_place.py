"""Devices that services share, and what each has before it when a call is placed (DyOrc, section 5.3)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol


class TimedService(Protocol):
    """What placement knows of a service."""

    @property
    def name(self) -> str: ...

    @property
    def load_s(self) -> float: ...

    @property
    def max_batch(self) -> int: ...

    def batch_s(self, calls: int) -> float:
        """Return the time of a batch of so many calls."""


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A batch that a place has not ended."""

    service: str
    calls: int
    starts_s: float
    """Not before this; below zero: it is being computed, and takes no more calls."""
    ends_s: float


@dataclass(frozen=True, slots=True)
class Place:
    """A device that services share, one batch at a time."""

    batches: tuple[QueuedBatch, ...] = ()
    """In their order."""
    loaded_s: Mapping[str, float] | None = None
    """Service → when it is loaded, of those that are, or are being loaded."""


@dataclass(frozen=True, slots=True)
class ExpectedPlace:
    place: Place
    load_from_s: float
    """From when on it could load something that it has not begun to load."""
    services: Collection[str] | None = None
    """Those that can be computed there; None: all."""


def open_batch(place: Place, service: str, max_batch: int) -> QueuedBatch | None:
    """Return the batch of a service that waits on a place and has room for one call more; None: there is none."""
    for batch in place.batches:
        if batch.service == service and batch.calls < max_batch and batch.starts_s >= 0:
            return batch
    return None


def avail_s(place: Place, service: str, load_s: float, max_batch: int) -> float:
    """Return avail(t, d): when a place can begin a call of a service. A batch of that service that waits and has room
    takes it along; else it waits for all that is queued. A service that is not loaded is loaded meanwhile."""
    loaded = (place.loaded_s or {}).get(service, load_s)
    batch = open_batch(place, service, max_batch)
    if batch is not None:
        return max(batch.starts_s, loaded)
    return max(max((batch.ends_s for batch in place.batches), default=0.0), loaded)


def expected_batches(
    running: QueuedBatch | None, waiting: Iterable[TimedService], now_s: float, unloaded: Collection[str] = ()
) -> tuple[QueuedBatch, ...]:
    """Return the batch that a place computes, and behind it those of the calls that wait, each as large as may be, in
    the order of the queue. `waiting`: the service of each of these calls; `unloaded`: services that the place loads
    between two batches, each when it comes to the first of it."""
    batches: list[tuple[TimedService, int]] = []
    last: dict[str, int] = {}
    for service in waiting:
        at = last.get(service.name)
        if at is not None and batches[at][1] < service.max_batch:
            batches[at] = (service, batches[at][1] + 1)
        else:
            last[service.name] = len(batches)
            batches.append((service, 1))
    found = [] if running is None else [running]
    at_s = now_s if running is None else running.ends_s
    to_load = set(unloaded)
    for service, calls in batches:
        if service.name in to_load:
            to_load.remove(service.name)
            at_s += service.load_s
        found.append(QueuedBatch(service.name, calls, at_s, at_s + service.batch_s(calls)))
        at_s += service.batch_s(calls)
    return tuple(found)
