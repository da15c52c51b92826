"""A handle: what a call will give, or a part of the request, before anybody knows its value."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NoReturn

from medley_sdk.errors import TaskError
from medley_sdk.values import CallRef, Ref

if TYPE_CHECKING:
    from medley_sdk.run import Run


class Handle:
    """It can be handed to calls, put into lists and dicts, and returned. To await one that a decoder gave is to wait
    for its text."""

    __slots__ = ("_run", "ref")

    def __init__(self, run: "Run", ref: Ref) -> None:
        self._run = run
        self.ref = ref

    @property
    def stream(self) -> "Handle":
        """The same, handed on as it is made. Raises TaskError for a part of the request, which is there whole."""
        if not isinstance(self.ref, CallRef):
            raise TaskError(f"{self!r} is no stream: hand it on as it is")
        return Handle(self._run, CallRef(self.ref.call, stream=True))

    def __await__(self) -> Generator["Handle", None, Any]:
        """Raises TaskError for rows, media and parts of the request, which stay where they are."""
        place = self._run.awaited(self)
        if not self._run.is_known(place):
            yield self
        return self._run.value(place)

    def __repr__(self) -> str:
        return self._run.described(self.ref)

    def _has_no_value(self, *_: object) -> NoReturn:
        raise TaskError(f"{self!r} has no value yet: the code of a task may ask how many images and clips a request "
                        "has, and what it is to be answered with, not what is in them")  # fmt: skip

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __int__ = __float__ = __str__ = _has_no_value
    __eq__ = __ne__ = __lt__ = __gt__ = _has_no_value
    __hash__ = object.__hash__
