"""The machine types of the local cloud."""

import math
from dataclasses import dataclass

_LEAST_PERIOD_US, _LEAST_QUOTA_US = 10_000, 1_000
"""A node of half a core runs for 5 ms of each 10. With the kernel's default of 100 ms, a step of a few milliseconds
takes them or nearly 100, by chance. The kernel takes no quota below 1 ms."""


def quota_period_us(cpu_cores: float) -> int:
    """Period in which a node of so many processors gets its share of them again."""
    return max(_LEAST_PERIOD_US, round(_LEAST_QUOTA_US / cpu_cores))


@dataclass(frozen=True, slots=True)
class LocalKind:
    name: str
    cpu_cores: float
    """Share of this machine's processors: 0.5 is half of one."""
    memory_mib: int
    stock: int
    """Nodes of this kind that may exist at once."""

    def __post_init__(self) -> None:
        if not (0 < self.cpu_cores < math.inf and self.memory_mib > 0 and self.stock >= 0):
            raise ValueError(f"local node kind {self.name!r} needs CPU cores and memory above 0, and a stock from 0")

    @property
    def threads(self) -> int:
        """Number of threads that can be busy at once: more would only wait for each other."""
        return math.ceil(self.cpu_cores)

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * 2**20
