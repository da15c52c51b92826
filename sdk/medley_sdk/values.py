"""What is recorded of a run: values that travel between the process of a task and those that plan and serve it."""

from enum import StrEnum

from msgspec import Struct

MOST_CALLS = 256
"""Calls of one run: a loop without an end is refused for them, long before it has used up its time."""


class Kind(StrEnum):
    ENCODER = "encoder"
    """Turns an image or a clip into rows."""
    DECODER = "decoder"
    """Reads text and rows, and writes tokens."""
    GENERATOR = "generator"
    """Turns rows or tokens into an image or audio."""


class UnitTask(Struct, frozen=True, array_like=True):
    """A unit task: components of a model that one executor computes."""

    kind: Kind
    """That of the last component, which decides what is given."""
    components: tuple[str, ...]
    of: str
    """Name of the model's graph, or path of its config."""

    @property
    def name(self) -> str:
        return "+".join(self.components)


class Signature(Struct, frozen=True, array_like=True):
    """All that the code of a task may know of a request while it is recorded: requests of one signature call the
    same."""

    answer: str
    """`text`, `audio` or `image`: what the client asks for."""
    text: bool = True
    """Whether there is text."""
    images: int = 0
    audio: int = 0
    """Clips that are heard."""


class InputRef(Struct, frozen=True, array_like=True, tag="input"):
    """A part of the request."""

    modality: str
    index: int = 0


class CallRef(Struct, frozen=True, array_like=True, tag="call"):
    """What a call gives."""

    call: int
    stream: bool = False
    """Handed on as it is made; else once it is whole."""


class ResultRef(Struct, frozen=True, array_like=True, tag="result"):
    """The result of a call of a run that is executed."""

    path: str
    """Call path."""


Ref = InputRef | CallRef
AnyRef = Ref | ResultRef


class Call(Struct, frozen=True, array_like=True):
    """One invocation of a unit."""

    unit: UnitTask
    given: bytes
    """Its arguments, positional ones and those with names, as MessagePack; handles stand as slots."""
    takes: tuple[Ref, ...]
    """What the slots stand for."""


class Choice(Struct, frozen=True, array_like=True):
    options: int
    taken: int


class Record(Struct, frozen=True, array_like=True):
    """The graph of calls of one run."""

    signature: Signature
    calls: tuple[Call, ...]
    choices: tuple[Choice, ...]
    answer: bytes
    """What the run returns, as MessagePack; handles stand as slots. Empty: it is known once `awaits` is."""
    gives: tuple[Ref, ...]
    """What the slots of the answer stand for."""
    awaits: int | None = None
    """The call whose value the run waits for; what it does then is not known. None: it ended."""
