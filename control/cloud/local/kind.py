"""The machine types of the local cloud."""

import math
from dataclasses import dataclass


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
        """As many as can be busy at once: more would only wait for each other."""
        return math.ceil(self.cpu_cores)

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * 2**20
