"""A handle: what a call will give, or a part of the request, before anybody knows its value."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn

from medley_sdk.errors import TaskError
from medley_sdk.values import AnyRef, CallRef

if TYPE_CHECKING:
    from medley_sdk.current import Running


class Handle:
    """It can be handed to calls, put into lists and dicts, and returned. To await one that a decoder gave is to wait
    for its text; one of a model or service, for its result."""

    __slots__ = ("ref", "run")

    def __init__(self, run: "Running", ref: AnyRef) -> None:
        self.run = run
        self.ref = ref

    @property
    def stream(self) -> "Handle":
        """The same, handed on as it is made. Raises TaskError for a part of the request, which is there whole."""
        if not isinstance(self.ref, CallRef):
            raise TaskError(f"{self!r} is no stream: hand it on as it is")
        return Handle(self.run, CallRef(self.ref.call, stream=True))

    def __await__(self) -> Generator[Any, Any, Any]:
        """Raises TaskError for rows, media and parts of the request, which stay where they are, and CallError where the
        call failed."""
        return self.run.wait(self)

    def __repr__(self) -> str:
        return self.run.described(self.ref)

    def _has_no_value(self, *_: object) -> NoReturn:
        raise TaskError(f"{self!r} has no value yet: await it, where code may see it; of a request's parts "
                        "it may ask how many there are, and what is to be answered with")  # fmt: skip

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __int__ = __float__ = __str__ = _has_no_value
    __eq__ = __ne__ = __lt__ = __gt__ = _has_no_value
    __hash__ = object.__hash__
