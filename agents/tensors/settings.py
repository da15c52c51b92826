"""Settings of a sidecar."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    slab_bytes: int
    """Of shared memory, taken at the start: a multiple of 4096."""
    quota_bytes: int
    """That one producer may have, and what is pulled: below the slab, so that none keeps the others out."""
    kept_bytes: int
    """For rows that are kept by key. They are given up, the least recently used first, where room is short."""
    chunk_bytes: int = 4 << 20
    """Of a tensor that is no stream: it is sent while its producer writes the next. A multiple of 4096."""
    max_tensors: int = 1 << 16
    """Each takes some hundred bytes of the sidecar, however small it is."""
    stall_s: float = 10.0
    """The longest that the other end of a link may do nothing, and that another sidecar may take to come back."""
    credit: int = 4
    """Chunks on their way over a link."""
    pulled_keep_s: float = 60.0
    """The longest that no chunk of a pulled tensor may come or be taken."""
    pulled_ahead: int = 64
    """Chunks of a stream that are pulled before the slowest consumer."""
    max_pulls: int = 256
    """Each is a thread and a connection."""
    is_encrypted: bool = False
    """Links are TLS: for nodes that do not share a private network."""
