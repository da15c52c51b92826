"""What is simulated: services, and runs that call them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class SimulatedService:
    name: str
    memory_gib: float
    load_s: float
    """From host memory, where each machine has all services (section 5.4), onto a place."""
    base_s: float
    """Of a batch, whatever its size."""
    call_s: float
    """Of each call in it."""
    max_batch: int
    result_mib: float

    def batch_s(self, calls: int) -> float:
        return self.base_s + calls * self.call_s


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    service: str
    inputs: tuple[int, ...] = ()
    """Calls of the run whose results it takes, by their number in it."""


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    app: str
    asked_s: float
    waves: tuple[tuple[SimulatedCall, ...], ...]
    """Calls that become known together: the first when the run begins, others when all before them are done."""


@dataclass(slots=True, eq=False)
class OpenCall:
    """A call that was made."""

    service: SimulatedService
    inputs: Sequence["OpenCall"]
    run: "OpenRun"
    place: int = -1
    is_ready: bool = False
    """Its inputs are on its place."""
    done_s: float = inf


@dataclass(slots=True, eq=False)
class OpenRun:
    given: SimulatedRun
    calls: list[OpenCall] = field(default_factory=list)
    """Those that are known."""
    waves: int = 0
    """Waves that are known."""
    ended_s: float = inf

    @property
    def latency_s(self) -> float:
        return self.ended_s - self.given.asked_s

    def made(self) -> list[str]:
        """Return the services that were called, in order."""
        return [call.service.name for call in self.calls]
