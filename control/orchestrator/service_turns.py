"""What a worker does next: which batch it computes, which service it loads ahead, and which go for that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from control.orchestrator.measured_times import MeasuredTimes
from control.orchestrator.service_memory import ServiceMemory
from control.orchestrator.service_queue import Numbered, Queued, ServiceQueue
from medley_sdk.flows.messages import ServiceInfo


@dataclass(slots=True)
class _Soon:
    """What a run that goes on will have computed here: services."""

    promised: list[str]
    """Of calls that it has made, each with its place here, and that are not in the queue yet."""
    ahead: Sequence[str]
    """Of calls that are predicted."""


@dataclass(frozen=True, slots=True)
class Before:
    """What a worker has before it, but for what is expected of one run: services."""

    waiting: list[str]
    """Of each call, in the order in which they are computed."""
    ahead: list[str]
    """That are loaded when nothing waits."""
    here: set[str]
    """That are there now, and still are when all that waits is loaded."""


class ServiceTurns:
    """Not thread-safe. It has neither process nor clock: its owner does as it says, and tells it what came of it."""

    def __init__(self, services: Mapping[str, ServiceInfo], times: MeasuredTimes, most_mib: float | None) -> None:
        """`times`: also what services take of memory. `most_mib`: what the process may take; None: all."""
        self.queue = ServiceQueue({name: info.max_batch for name, info in services.items()})
        self.memory = ServiceMemory(most_mib, times.services)
        self.never_ahead: set[str] = set()
        """Services that could not be loaded when no call waited for them: calls will say why."""
        self._times = times
        self._soon: dict[str, _Soon] = {}
        """By run."""
        self._lets_pass = False
        """The call whose turn it is was put back, for others that use what is there."""

    def add(self, call: Queued, run: str) -> None:
        soon = self._soon.get(run)
        if soon is not None and call.service in soon.promised:
            soon.promised.remove(call.service)
        self.queue.add(call)

    def expect(self, run: str, promised: Sequence[str], ahead: Sequence[str]) -> None:
        if promised or ahead:
            self._soon[run] = _Soon(list(promised), ahead)
        else:
            self._soon.pop(run, None)

    def before(self, run: str) -> Before:
        others = [soon for other, soon in self._soon.items() if other != run]
        waiting = self.queue.services() + [name for soon in others for name in soon.promised]
        ahead = [name for soon in others for name in soon.ahead]
        ahead = [name for name in dict.fromkeys(ahead) if name in self.memory or self.out(name, ahead=True) is not None]
        held, needed = self.memory.held, set(waiting)
        gone = self.memory.out(needed - held, needed)
        return Before(waiting, ahead, held & needed if gone is None else held.difference(gone))

    def batch(self) -> list[Numbered]:
        """Take the next batch: of the service whose turn it is. Where room for it takes others that calls need which
        waited when its turn came, these are computed first: no service goes that they need, and no call waits for one
        that came after its turn. Empty: nothing waits that is still wanted."""
        first = self.queue.first()
        if first is None:
            return []
        service = first
        if first not in self.memory and (self._lets_pass or (not self.is_too_large(first) and self.out(first) is None)):
            service = next((name for name in self.queue.overtaking() if name in self.memory), first)
        self._lets_pass = False
        return self.queue.batch(service)

    def put_back(self, batch: Sequence[Numbered]) -> None:
        """Have a batch wait again for which there was no room; what may be computed before it is."""
        self.queue.put_back(batch)
        self._lets_pass = True

    def wanted(self) -> str | None:
        """Return a service that calls will need soon and that can be loaded; None: there is none."""
        soon = self._soon.values()
        names = [name for each in soon for name in each.promised] + [name for each in soon for name in each.ahead]
        known = self.memory.held | self.never_ahead
        for name in dict.fromkeys(names):
            if name not in known and not self.is_too_large(name) and self.out(name, ahead=True) is not None:
                return name
        return None

    def out(self, name: str, *, ahead: bool = False) -> list[str] | None:
        """Return which services go so that one has room, or, where it is there, so that all are within the bound; first
        the one that goes first. None: what may go is too little.

        None goes that a queued or promised call needs. But for a call whose turn it is (not `ahead`), promised ones go
        where nothing that is there could be computed first, as what they are promised for may wait for this very call;
        at last those that only calls need which came after its turn. What is loaded for a prediction takes the place
        of no other prediction: they would take turns for ever."""
        promised = {each for soon in self._soon.values() for each in soon.promised}
        queued = set(self.queue.services())
        stay = queued | promised
        if ahead:
            if name not in promised:
                stay |= {each for soon in self._soon.values() for each in soon.ahead}
            return self.memory.out({name}, stay)
        found = self.memory.out({name}, stay)
        if found is not None or self.is_needed_before(name):
            return found
        return self.memory.out({name}, (), lambda each: 2 if each in queued else int(each in promised))

    def is_needed_before(self, name: str) -> bool:
        """Tell whether calls that may be computed before the one whose turn it is, of `name`, use what is there."""
        return any(each in self.memory and each != name for each in self.queue.overtaking())

    def is_too_large(self, name: str) -> bool:
        return self._times.services[name].is_too_large
