"""What a dispatcher of calls is asked, and answers: where the calls of a run are computed, and what is loaded ahead.

It has neither clock nor socket, and keeps nothing of a run that goes on: whoever asks says what places have before
them now. The simulator and orchestrators ask the same (`policies.workflows.dispatches`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from policies.workflows.shared_place import ExpectedPlace, TimedService


class DispatchName(StrEnum):
    SPECULATIVE = "speculative"
    GREEDY = "greedy"
    ROUND_ROBIN = "round_robin"


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A call that a run has made."""

    service: str
    inputs: tuple[int, ...] = ()
    """Of the calls that are placed together, those before it whose results it takes."""
    held: tuple[tuple[str, int], ...] = ()
    """Service and place of other results that it takes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Places under one dispatcher, as they are when it is asked."""

    now_s: float
    """By the clock that the places' times go by."""
    services: Mapping[str, TimedService]
    places: Sequence[ExpectedPlace]
    transfer_s: Callable[[str], Any]
    """Service → array (places, places): time to bring a result of it from one place to another, 0 on the diagonal."""
    loads_beside: bool
    """Places load while they compute; otherwise between two batches."""


@dataclass(frozen=True, slots=True)
class Assignment:
    places: tuple[int, ...]
    """Of each call."""
    ahead: tuple[tuple[str, int], ...] = ()
    """Service and place of what is predicted, in its order: it is to be loaded there."""


class CallDispatch(Protocol):
    """Its callers ask one at a time."""

    def assigned(self, app: str, made: Sequence[str], calls: Sequence[KnownCall], cell: Cell) -> Assignment:
        """Place calls that a run has made. `app`: its workflow; `made`: the names of all that it has called, in order,
        these calls among them. Names that are no services of the cell are computed elsewhere."""

    def knows(self, app: str) -> bool:
        """Tell whether it needs to learn nothing of runs of a workflow that ended before."""

    def learn(self, app: str, made: Sequence[str]) -> None:
        """Learn from a run that has ended."""
