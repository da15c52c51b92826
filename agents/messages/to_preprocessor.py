"""What a gateway asks its preprocessor, and is answered: MessagePack over a pipe, each message behind its length."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from agents.messages.bounds import Count, Text
from agents.messages.tensor_spec import TensorName
from agents.messages.to_sidecar import ContentKey, SidecarAddress, WaitSeconds
from templates_lib.media.image_format import ImageFormat
from templates_lib.media.media_error import MediaFault

LENGTH_BYTES = 4
MOST_BYTES = 1 << 28
"""Of a message: a picture or a sound as its client sent it."""

Layout = Literal["patches", "tiles"]
"""Kinds of units that pictures become (`agents.engines.components.unit_kinds`)."""
Channels = tuple[float, float, float]


class PictureForm(Struct, frozen=True, array_like=True):
    """How an encoder sees pictures."""

    layout: Layout
    rule: str
    """How they are scaled and cut: a name of `templates_lib.media.rules`."""
    parameters: dict[str, Any]
    """Of the rule."""
    mean: Channels
    """Of each channel, of values from 0 to 1, and its standard deviation: what they are normalised by."""
    deviation: Channels
    frames: Count = 1
    """Of a patch, where they become patches."""
    patch: Count = 1
    """Pixels of a patch's side."""
    merge: Count = 1
    """Patches along a side of what becomes one row."""


class Output(Struct, frozen=True, array_like=True):
    """The tensor that a unit becomes: fp32, taken once."""

    name: TensorName
    key: ContentKey
    """Of the bytes, and of how they are prepared: what is kept under it is not made again."""
    keep_s: WaitSeconds


class PreparePicture(Struct, frozen=True, array_like=True, tag="picture"):
    call: Count
    output: Output
    form: PictureForm
    format: ImageFormat
    """This, and what follows, as its header says."""
    width: Count
    height: Count
    orientation: Count
    data: bytes


class PrepareSound(Struct, frozen=True, array_like=True, tag="sound"):
    """Becomes samples of one channel (`agents.media.sound`)."""

    call: Count
    output: Output
    samples_per_s: Count
    """This, and what follows, as its header says."""
    channels: Count
    bits: Count
    is_float: bool
    start: Count
    frames: Count
    data: bytes


class Discard(Struct, frozen=True, array_like=True, tag="discard"):
    """Nobody takes the tensor any more. Not answered."""

    name: TensorName


ToPreprocessor = PreparePicture | PrepareSound | Discard


class Prepared(Struct, frozen=True, array_like=True, tag="prepared"):
    call: Count
    place: SidecarAddress


class NotPrepared(Struct, frozen=True, array_like=True, tag="not_prepared"):
    call: Count
    reason: Annotated[Text, Meta(min_length=1)]
    fault: MediaFault | None = None
    """Of the picture or sound; None: it may be sent again."""


FromPreprocessor = Prepared | NotPrepared


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(LENGTH_BYTES) + payload
