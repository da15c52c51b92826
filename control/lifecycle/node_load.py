"""Load of a node, as last reported."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeLoad:
    cpu_share: float = 0.0
    """Processors that its engine keeps busy."""
    memory_mib: int = 0
    """Resident, of its engine."""
    scheduler: str = ""
    """State of the instance's scheduler, on the node that runs it; empty on the others."""
    running: int = 0
    waiting: int = 0
    kv_blocks: int = 0
    kv_blocks_free: int = 0
    metrics: str = ""
    """URL of its metrics, in Prometheus' format."""
