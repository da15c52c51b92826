"""Messages to the sidecar of a node: from the processes of the node, and from sidecars of other nodes.

Those with a `call` are answered by one message with the same number (`to_tensor_client`).
"""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, Name, Port
from agents.messages.tensor_spec import TensorName, TensorSpec

MAX_MESSAGE_BYTES = 8192

Consumers = Annotated[int, Meta(gt=0, le=1024)]
Consumer = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
"""A secret of the consumer's own."""
WaitSeconds = Annotated[float, Meta(gt=0, le=3600)]
ContentKey = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.:\-]{16,128}\Z")]
"""A hash of what the tensor was made from, and of what made it."""


class SidecarAddress(Struct, frozen=True, array_like=True):
    """Where the sidecar of another node listens for links; who has it may take what is there by name."""

    host: Name
    port: Port
    token: Annotated[bytes, Meta(min_length=32, max_length=32)]
    is_encrypted: bool = False

    def __repr__(self) -> str:
        """Leaves the token out: it is a secret."""
        return f"SidecarAddress({self.host}:{self.port})"


class Attach(Struct, frozen=True, array_like=True, tag="attach"):
    """First message of a process: it asks for the slab. Others of the same name share its quota."""

    call: Count
    name: Name
    writes: bool
    """False: it can only read the slab."""


class CreateTensor(Struct, frozen=True, array_like=True, tag="create"):
    """Granted with memory for all of it, or for a stream with none, which asks for each chunk."""

    call: Count
    name: TensorName
    spec: TensorSpec
    consumers: Consumers
    """Processes of this node, and other nodes."""
    keep_s: WaitSeconds
    """The longest that no chunk of it may be written or taken; then it is gone."""
    ahead: Annotated[int, Meta(gt=0, le=1 << 20)]
    """Chunks of a stream before the slowest consumer."""
    key: ContentKey | None = None
    """It is kept for others behind its consumers, as long as there is room."""


class ClaimChunk(Struct, frozen=True, array_like=True, tag="claim"):
    """Asks for memory of the next chunk of a stream."""

    call: Count
    name: TensorName
    index: Count
    size: Count


class CommitChunk(Struct, frozen=True, array_like=True, tag="commit"):
    """The chunk is written, and is not written to any more."""

    call: Count
    name: TensorName
    index: Count
    size: Count


class EndStream(Struct, frozen=True, array_like=True, tag="end"):
    call: Count
    name: TensorName


class WithdrawTensor(Struct, frozen=True, array_like=True, tag="withdraw"):
    call: Count
    name: TensorName


class AdoptTensor(Struct, frozen=True, array_like=True, tag="adopt"):
    """Makes a tensor of rows that are kept under a key, without a copy."""

    call: Count
    name: TensorName
    key: ContentKey
    consumers: Consumers
    keep_s: WaitSeconds


class PushTensor(Struct, frozen=True, array_like=True, tag="push"):
    """Has another node take the tensor as it comes, for so many consumers there; it counts as one consumer here."""

    call: Count
    name: TensorName
    to: SidecarAddress
    consumers: Consumers


class TakeChunk(Struct, frozen=True, array_like=True, tag="take_chunk"):
    """One credit: answered as soon as the chunk is there."""

    call: Count
    name: TensorName
    source: SidecarAddress | None
    """The sidecar that has it; none: this one."""
    consumers: Consumers
    """Where this sidecar pulls it: how many of its node take it."""
    consumer: Consumer
    index: Count
    wait_s: WaitSeconds
    """For a tensor that is not there yet."""


class LeaveTensor(Struct, frozen=True, array_like=True, tag="leave"):
    """The consumer has what it wants, whether or not that is all. Not answered."""

    name: TensorName
    source: SidecarAddress | None
    consumer: Consumer


class ReleaseChunk(Struct, frozen=True, array_like=True, tag="release"):
    """The process no longer looks at the chunk there, or will not write it. Not answered."""

    offset: Count


ToSidecar = (
    Attach
    | CreateTensor
    | ClaimChunk
    | CommitChunk
    | EndStream
    | WithdrawTensor
    | AdoptTensor
    | PushTensor
    | TakeChunk
    | LeaveTensor
    | ReleaseChunk
)
"""From processes of the node."""


class Look(Struct, frozen=True, array_like=True, tag="look"):
    """What is that tensor? Whoever is to take it makes room for it before."""

    name: TensorName
    wait_s: WaitSeconds


class Take(Struct, frozen=True, array_like=True, tag="take"):
    """One credit over a link: the chunk is sent as soon as it is there."""

    name: TensorName
    consumer: Consumer
    """By which it goes on over another connection."""
    index: Count
    done: Count
    """Chunks that it needs no more."""


class Offer(Struct, frozen=True, array_like=True, tag="offer"):
    """Pull this: so many of your node will ask for it."""

    name: TensorName
    source: SidecarAddress
    consumers: Consumers


ToSidecarByLink = Look | Take | Offer
"""From sidecars of other nodes."""
