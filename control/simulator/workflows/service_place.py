"""A device that services share: a queue, one batch at a time, and memory into which services are loaded meanwhile."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from control.simulator.workflows.simulated_run import OpenCall, SimulatedService
from policies.workflows.eviction import evicted
from policies.workflows.shared_place import ExpectedPlace, Place, QueuedBatch, expected_batches


class ServicePlace:
    def __init__(self, memory_gib: float, services: Mapping[str, SimulatedService]) -> None:
        """Raises ValueError for a service that fits no place."""
        self.queue: list[OpenCall] = []
        self.running: list[OpenCall] = []
        self.loads = 0
        self.pinned: set[str] = set()
        """Services that are not evicted."""
        self._memory_gib = memory_gib
        self._services = services
        self._used_s: dict[str, float] = {}
        """Service that is loaded → when it was used last."""
        self._loading: SimulatedService | None = None
        self._wanted: list[SimulatedService] = []
        self._held_s: defaultdict[frozenset[str], float] = defaultdict(float)
        """Services that were there together → how long."""
        self._ends_s = self._loaded_s = self._since_s = 0.0
        too_large = [each.name for each in services.values() if each.memory_gib > memory_gib]
        if too_large:
            raise ValueError(f"{', '.join(too_large)} need more than the {memory_gib:g} GiB of a place")

    @property
    def free_gib(self) -> float:
        """Memory that is not for what is pinned."""
        return self._memory_gib - sum(self._services[name].memory_gib for name in self.pinned)

    def ongoing(self) -> Counter[str]:
        """Return the calls of each service that are not done."""
        return Counter(call.service.name for call in (*self.queue, *self.running))

    def want(self, service: SimulatedService) -> None:
        """Have a service loaded as soon as may be."""
        if service.name not in self._used_s and service is not self._loading and service not in self._wanted:
            self._wanted.append(service)

    def unpin(self, service: str) -> None:
        """Let a service be evicted; one that still is to be loaded is not."""
        self.pinned.discard(service)
        self._wanted = [each for each in self._wanted if each.name != service]

    def begin(self, now_s: float) -> float | None:
        """Begin the next batch: the first call in the queue that is ready and whose service is loaded, and with it
        those of the same service that are ready too. Return its time; None where nothing can begin."""
        first = next((call for call in self.queue if call.is_ready and call.service.name in self._used_s), None)
        if self.running or first is None:
            return None
        service = first.service
        together = [call for call in self.queue if call.is_ready and call.service is service]
        self.running = together[: service.max_batch]
        taken = set(self.running)
        self.queue = [call for call in self.queue if call not in taken]
        self._used_s[service.name] = now_s
        took_s = service.batch_s(len(self.running))
        self._ends_s = now_s + took_s
        return took_s

    def end(self) -> list[OpenCall]:
        """Return the calls of the batch, which is done."""
        batch, self.running = self.running, []
        return batch

    def load(self, now_s: float) -> SimulatedService | None:
        """Begin to load a service, and evict those used least recently that make room for it. Return it; None where
        there is nothing to load, or no room."""
        if self._loading is not None:
            return None
        urgent = next((call for call in self.queue if call.is_ready and call.service.name not in self._used_s), None)
        for service in [urgent.service] if urgent else self._by_need():
            gone = self._evicted_for(service, urgent)
            if gone is not None:
                self._start(service, gone, now_s)
                return service
        return None

    def loaded(self, service: SimulatedService, now_s: float) -> None:
        """End the loading of a service."""
        self._note(now_s)
        self._used_s[service.name] = now_s
        self._loading = None

    def longest_held(self, now_s: float) -> frozenset[str]:
        """Return the services that were there together for longest."""
        self._note(now_s)
        return max(self._held_s, key=lambda names: (self._held_s[names], sorted(names)))

    def expected(self, now_s: float) -> ExpectedPlace:
        """Return what the place has before it, as placement sees it, in seconds of the simulated clock."""
        running = None
        if self.running:
            running = QueuedBatch(self.running[0].service.name, len(self.running), -1.0, self._ends_s)
        loaded_s = dict.fromkeys(self._used_s, 0.0)
        load_s = now_s
        if self._loading is not None:
            load_s = loaded_s[self._loading.name] = self._loaded_s
        for service in self._wanted:
            load_s += service.load_s
            loaded_s[service.name] = load_s
        batches = expected_batches(running, (call.service for call in self.queue), now_s)
        return ExpectedPlace(Place(batches, loaded_s), load_s)

    def _by_need(self) -> list[SimulatedService]:
        """Services to load, first those that calls in the queue need; others are given up where there is no room."""
        needed = {call.service.name for call in self.queue} | self.pinned
        self._wanted = [
            each for each in self._wanted if each.name in needed or self._evicted_for(each, None) is not None
        ]
        return sorted(self._wanted, key=lambda each: each.name not in needed)

    def _evicted_for(self, service: SimulatedService, urgent: OpenCall | None) -> list[str] | None:
        """Return what has to go for a service, least recently used first; None where too much is needed.

        For a call that is ready goes all that no call before it could use now, so that it waits for none behind it;
        otherwise nothing goes that a call in the queue needs.
        """
        before = self.queue if urgent is None else self.queue[: self.queue.index(urgent)]
        needed = {call.service.name for call in before if urgent is None or call.is_ready}
        needed |= {call.service.name for call in self.running} | self.pinned
        by_use = sorted(self._used_s, key=self._used_s.__getitem__)
        held_gib = {name: self._services[name].memory_gib for name in by_use}
        return evicted(held_gib, needed, self._memory_gib - sum(held_gib.values()), service.memory_gib)

    def _start(self, service: SimulatedService, gone: Iterable[str], now_s: float) -> None:
        self._note(now_s)
        self._wanted = [each for each in self._wanted if each is not service]
        for name in gone:
            del self._used_s[name]
            if any(call.service.name == name for call in self.queue):
                self._wanted.append(self._services[name])
        self._loading, self._loaded_s = service, now_s + service.load_s
        self.loads += 1

    def _note(self, now_s: float) -> None:
        self._held_s[frozenset(self._used_s)] += now_s - self._since_s
        self._since_s = now_s
