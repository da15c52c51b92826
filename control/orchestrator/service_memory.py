"""The memory of a worker's process, and the services that are in it."""

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet

from control.orchestrator.measured_times import MeasuredService
from policies.workflows.eviction import evicted


class ServiceMemory:
    """It goes by what its owner measures, and knows nothing of processes."""

    def __init__(self, most_mib: float | None, services: Mapping[str, MeasuredService]) -> None:
        """`most_mib`: what the process may take; None: all that it asks for. `services`: which know what they take."""
        self.most_mib = most_mib
        self.resident_mib = 0.0
        """What the process takes, as it was measured last."""
        self.loads = 0
        """Services that the process was asked to load, those that it has no more among them."""
        self._services = services
        self._held: dict[str, None] = {}
        """The one that was used least recently first."""

    def __contains__(self, name: str) -> bool:
        return name in self._held

    @property
    def held(self) -> set[str]:
        return set(self._held)

    def used(self, name: str) -> None:
        """A service is loaded, or computes."""
        self._held.pop(name, None)
        self._held[name] = None

    def dropped(self, name: str) -> None:
        self._held.pop(name, None)

    def ended(self) -> None:
        """The process has, and all that was in it."""
        self._held.clear()
        self.resident_mib, self.loads = 0.0, 0

    def out(
        self, names: AbstractSet[str], stay: Container[str], claim: Callable[[str], int] | None = None
    ) -> list[str] | None:
        """Return which services go so that these have room, first the one that goes first; None: all that may go is too
        little. What was never loaded is taken to need nothing, and what is there needs no more than it has.

        `stay`: others that do not go; `claim`: of those that may, those with a larger one go later, and of equal ones
        the one that was used least recently goes first."""
        if self.most_mib is None:
            return []
        order = sorted(self._held, key=claim) if claim else list(self._held)
        takes_mib = {name: self._services[name].memory_mib for name in order if name not in names}
        needs_mib = sum(self._services[name].memory_mib for name in sorted(names) if name not in self._held)
        return evicted(takes_mib, stay, self.most_mib - self.resident_mib, needs_mib)
