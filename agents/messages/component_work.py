"""Work of components of a graph, beside that of whole models: gateways ask executors, and are answered."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import (
    MAX_PIECE_BYTES,
    MAX_TEXT_TO_MAKE,
    MAX_TOKENS,
    Attempt,
    Count,
    MaybeName,
    MaybeTrace,
    Name,
    Position,
)
from agents.messages.tensor_spec import TensorName
from agents.messages.to_sidecar import Consumers, ContentKey, SidecarAddress, WaitSeconds

Side = Annotated[int, Meta(ge=1, le=1 << 16)]
Grid = tuple[Side, Side, Side]
"""Frames, rows and columns."""


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
    grid: Grid | None = None
    """Of patches."""
    consumers: Consumers = 1
    """Of the output."""
    keep_s: WaitSeconds = 60.0
    """Time until which they must have it."""
    key: ContentKey | None = None
    """Of the unit: rows that are kept under it are not made again."""
    trace: MaybeTrace = ""
    rows: Count = 0
    """That the gateway expects of it; 0: one of the previous version does not say."""
    behind_s: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """How much later its turn is than that of a unit that is ready with it: pictures of others go before the later ones
    of a large request (`policies.pools.turns.interleaved`)."""


class Encoded(Struct, frozen=True, array_like=True, tag="encoded"):
    attempt: Attempt
    rows: Count
    row_width: Count
    """fp32, in the output that was asked for."""
    place: SidecarAddress


class PromptRows(Struct, frozen=True, array_like=True):
    """Rows that a component has made of a part of a request, for its decoder: (rows, width) fp32 values, complete."""

    tensor: TensorAt
    """Taken as often as the decoder's `Status.takes_rows` says, and gone then: who needs it again fails the attempt."""
    rows: Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
    position: Position | None = None
    """In the prompt, of the token that the first of them stands for: they take the place of the embeddings of so many
    tokens, whatever their ids. None: the decoder attends to them, beside its prompt (as Whisper's)."""
    grid: Grid | None = None
    """Of these tokens, for decoders whose tokens have three positions."""
    frame_step: Annotated[float, Meta(ge=0, le=1 << 16)] = 1.0
    """Positions from a frame to the next: of a video, whose frames are as far apart as their times."""
    key: ContentKey | None = None
    """Of what the rows were made from, with what made them: only where all rows of a request have one may it share KV
    blocks with others, as tokens do not say what those hold."""


TextToMake = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_TO_MAKE)]


class AskedSpeech(Struct, frozen=True, array_like=True, tag="speech"):
    text: TextToMake
    voice: MaybeName = ""
    """Empty: the component's first."""
    speed: Annotated[float, Meta(ge=0.25, le=4)] = 1.0


class AskedPicture(Struct, frozen=True, array_like=True, tag="picture"):
    text: TextToMake
    width: Annotated[int, Meta(ge=0, le=1 << 16)]
    """Pixels; 0: as many as the component makes by itself."""
    height: Annotated[int, Meta(ge=0, le=1 << 16)]
    seed: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """Of the noise that it is made from: the same anywhere gives the same picture."""
    steps: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Denoising steps; 0: as many as the component takes by itself."""
    guidance: Annotated[float, Meta(ge=0, le=100)] | None = None
    """How far each step goes from what no text asks to what this one does; None: as far as the component does by
    itself."""


class Make(Struct, frozen=True, array_like=True, tag="make"):
    """Have a generator answer a request: pieces come as `Made`, or `Failed`. Asked again after a failure, it goes on
    behind the pieces that the client has."""

    attempt: Attempt
    request: Name
    model: Name
    """As clients call the app."""
    component: Name
    """Of its graph."""
    asked: AskedSpeech | AskedPicture
    timeout_s: WaitSeconds
    """From its arrival: later nobody waits for it."""
    skip: Count = 0
    """Pieces that the client has, which are not made again."""
    trace: MaybeTrace = ""


class Made(Struct, frozen=True, array_like=True, tag="made"):
    """A piece of an answer: sound of a sentence or so, or a whole picture."""

    attempt: Attempt
    number: Count
    """Among all pieces of the answer, those that were skipped included: whoever receives sees gaps."""
    data: Annotated[bytes, Meta(max_length=MAX_PIECE_BYTES)]
    """PCM of 16 bits, little-endian, of one channel; or a PNG."""
    units: Annotated[float, Meta(ge=0, le=1e9)]
    """Of the component's work that the piece took: seconds of audio, denoising steps."""
    is_last: bool
    samples_per_s: Count = 0
    """Of sound; 0: a picture."""
