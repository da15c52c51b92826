"""One tensor in a sidecar: its life is a blob's, and its chunks are extents of the slab."""

from collections import deque
from dataclasses import dataclass, field

from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_sidecar import SidecarAddress
from agents.tensors.slab import Extent
from agents.transfer.blob import Blob


@dataclass(slots=True)
class Entry:
    name: str
    spec: TensorSpec
    blob: Blob[Extent]
    producer: int
    """Client that made it."""
    account: str
    part: int
    """Bytes of each of its chunks but the last, where it is no stream."""
    keep_s: float
    """The longest that no chunk of it may be written or taken."""
    key: str | None = None
    granted: deque[Extent] = field(default_factory=deque)
    """Extents that its producer writes, in the order in which they are to be committed."""
    claimed: int = 0
    """Chunks that were asked for."""
    committed: int = 0
    kept: list[Extent] = field(default_factory=list)
    """Chunks that are held for whoever comes with its key, until it is complete."""


@dataclass(frozen=True, slots=True)
class WaitingTake:
    """A consumer that waits for a chunk."""

    client: int
    call: int
    consumer: str
    index: int
    until_s: float
    """While the tensor is not there."""


@dataclass(frozen=True, slots=True)
class Pull:
    """A tensor of another sidecar that somebody here wants."""

    name: str
    """By which it is known here."""
    remote_name: str
    source: SidecarAddress
    consumers: int
    wait_s: float
