"""One run of a task's code: what it calls and chooses, in order."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from medley_sdk.errors import NonDeterminismError, TaskError
from medley_sdk.handle import Handle
from medley_sdk.packing import packed
from medley_sdk.request import Request
from medley_sdk.values import (
    MOST_CALLS,
    AnyRef,
    Call,
    CallRef,
    Choice,
    InputRef,
    Kind,
    Record,
    Ref,
    Signature,
    UnitTask,
)

if TYPE_CHECKING:
    from medley_sdk.flows.calls import Callee

MOST_CHOICES = 16
MOST_OPTIONS = 64


class Run:
    """`choices`: what to take, for the first of its choices; the first option is taken of any more. `values`: what the
    calls of an earlier run of the same gave."""

    def __init__(self, signature: Signature, choices: Sequence[int] = (), values: Sequence[Any] = ()) -> None:
        self.signature = signature
        self._asked, self._values = choices, values
        self._calls: list[Call] = []
        self._choices: list[Choice] = []

    @property
    def request(self) -> Request:
        text = Handle(self, InputRef("text")) if self.signature.text else None
        images, audio = (
            tuple(Handle(self, InputRef(modality, place)) for place in range(count))
            for modality, count in (("image", self.signature.images), ("audio", self.signature.audio))
        )
        return Request(text, images, audio, self.signature.answer)

    def call(self, unit: UnitTask, *args: Any, **kwargs: Any) -> Handle:
        """Raises TaskError for arguments that do not travel, and for more calls than a run may make."""
        if len(self._calls) == MOST_CALLS:
            raise TaskError(f"calls more than {MOST_CALLS} units; does a loop have no end?")
        given, takes = packed((args, kwargs), self)
        self._calls.append(Call(unit, given, takes))
        return Handle(self, CallRef(len(self._calls) - 1))

    def invoke(self, callee: "Callee", *_: Any, **__: Any) -> NoReturn:
        raise TaskError(
            f"calls {callee}; a composite task, whose request is a `Request`, calls units of one graph alone"
        )

    def choose(self, options: int) -> int:
        """Return the place of the option that is taken. Raises TaskError for no option, and for more than there may
        be."""
        if not 1 <= options <= MOST_OPTIONS or len(self._choices) == MOST_CHOICES:
            raise TaskError(f"chooses among {options} options, for the {len(self._choices) + 1}th time; 1 to "
                            f"{MOST_OPTIONS} options, {MOST_CHOICES} times, are the most")  # fmt: skip
        number = len(self._choices)
        taken = self._asked[number] if number < len(self._asked) else 0
        if not 0 <= taken < options:
            raise NonDeterminismError(
                f"chooses among {options} options, but option {taken} of this choice was recorded"
            )
        self._choices.append(Choice(options, taken))
        return taken

    def wait(self, handle: Handle) -> Generator[Handle, None, Any]:
        """Yield the handle where its value is not known. Raises TaskError where it has none that code sees."""
        place = self._awaited(handle)
        if place >= len(self._values):
            yield handle
        return self._values[place]

    def _awaited(self, handle: Handle) -> int:
        """Return the number of the call that is waited for."""
        ref = handle.ref
        if not isinstance(ref, CallRef):
            raise TaskError(f"awaits {handle!r}, whose content no code of a task sees; hand it to a unit")
        if self._calls[ref.call].unit.kind is not Kind.DECODER:
            raise TaskError(f"awaits {handle!r}, which stays where it is made; hand it to a unit, or return it")
        return ref.call

    def described(self, ref: AnyRef) -> str:
        match ref:
            case InputRef("text"):
                return "the text of the request"
            case InputRef(modality, index):
                return f"{modality} {index} of the request"
            case CallRef(call):
                return f"what {self._calls[call].unit.name} gives"
            case _:
                return "a result of another run"

    def ended(self, answer: Any) -> Record:
        """Return the record of a run that answered. Raises TaskError for what does not travel."""
        data, gives = packed(answer, self)
        return self._record(data, gives, None)

    def waits(self, call: int) -> Record:
        return self._record(b"", (), call)

    def _record(self, answer: bytes, gives: tuple[Ref, ...], awaits: int | None) -> Record:
        return Record(self.signature, tuple(self._calls), tuple(self._choices), answer, gives, awaits)
