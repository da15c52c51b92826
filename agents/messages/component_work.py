"""Work of components of a graph, beside that of whole models: gateways ask executors, and are answered."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Attempt, Count, MaybeTrace, Name
from agents.messages.tensor_spec import TensorName
from agents.messages.to_sidecar import Consumers, ContentKey, SidecarAddress, WaitSeconds

Side = Annotated[int, Meta(ge=1, le=1 << 16)]


class TensorAt(Struct, frozen=True, array_like=True):
    """A tensor, whole, in the sidecar of some node."""

    name: TensorName
    source: SidecarAddress | None = None
    """None: of the node of whoever is asked."""


class Encode(Struct, frozen=True, array_like=True, tag="encode"):
    """Have rows made of one unit, such as an image: they lie in the sidecar of the executor's node then. Asked again
    after a failure, with an output of another name, the same rows come of it."""

    attempt: Attempt
    request: Name
    model: Name
    """As clients call the app."""
    component: Name
    """Of its graph."""
    unit: TensorAt
    """Values of the unit, fp32, as the component takes them (`agents.engines.components.unit_kinds`)."""
    output: TensorName
    timeout_s: WaitSeconds
    """From its arrival: later nobody waits for it."""
    grid: tuple[Side, Side, Side] | None = None
    """Frames, rows and columns of patches."""
    consumers: Consumers = 1
    """Of the output."""
    keep_s: WaitSeconds = 60.0
    """Time until which they must have it."""
    key: ContentKey | None = None
    """Of the unit: rows that are kept under it are not made again."""
    trace: MaybeTrace = ""


class Encoded(Struct, frozen=True, array_like=True, tag="encoded"):
    attempt: Attempt
    rows: Count
    row_width: Count
    """fp32, in the output that was asked for."""
    place: SidecarAddress
