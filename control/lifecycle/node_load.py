"""Load of a node, as last reported."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeLoad:
    cpu_share: float = 0.0
    """Processors that its engine keeps busy."""
    memory_mib: int = 0
    """Resident, of its engine."""
    scheduler: str = ""
    """State of the scheduler that the node runs; empty where it runs none. Of several one that is not ready, if any."""
    running: int = 0
    waiting: int = 0
    kv_blocks: int = 0
    kv_blocks_free: int = 0
    metrics: str = ""
    """URL of its metrics, in Prometheus' format."""
    executors: dict[str, "NodeLoad"] = field(default_factory=dict)
    """Executor → the same of it alone, where the node runs several."""

    @property
    def kv_used(self) -> float | None:
        """Share of its KV blocks; None: it has none."""
        return 1 - self.kv_blocks_free / self.kv_blocks if self.kv_blocks else None


def together(loads: Mapping[str, NodeLoad]) -> NodeLoad:
    """The load of all executors of a node, or of all nodes of an instance; one alone stays as it is."""
    if len(loads) == 1:
        return next(iter(loads.values()))
    each = loads.values()
    states = sorted((load.scheduler for load in each if load.scheduler), key="ready".__eq__)
    names = "cpu_share", "memory_mib", "running", "waiting", "kv_blocks", "kv_blocks_free"
    sums = {name: sum(getattr(load, name) for load in each) for name in names}
    return NodeLoad(scheduler=states[0] if states else "", executors=dict(loads), **sums)
