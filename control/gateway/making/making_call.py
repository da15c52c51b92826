"""An answer that a generator makes, on its way: which pieces its client has, and who has failed it."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.messages.component_work import AskedPicture, AskedSpeech
from control.gateway.api_error import ApiError
from control.gateway.tasks.unit_graph import UnitGraph


@dataclass(frozen=True, slots=True)
class MakingRequest:
    """The part of it that stays the same whatever happens to the instances."""

    request: str
    """The id that the client sees."""
    model: str
    """Of the table."""
    app: str
    """As executors call it."""
    graphs: Mapping[str, UnitGraph]
    """By route."""
    asked: AskedSpeech | AskedPicture
    deadline_at_s: float
    """On the loop's clock."""
    trace: str
    """`traceparent` of the gateway's own span."""


class MakingCall:
    def __init__(self, asked: MakingRequest) -> None:
        self.asked = asked
        self.sent = 0
        """Pieces that the client has: what an attempt elsewhere goes on behind."""
        self.units = 0.0
        """Of the component's work, that these took."""
        self.is_whole = False
        """The last piece is there."""
        self.losses = 0
        """Attempts that ended without a result."""
        self.avoided: set[str] = set()
        """Instances that failed it since it last waited."""
        self.end: ApiError | None = None

    def finish(self, end: ApiError) -> None:
        """The first end is the end."""
        self.end = self.end or end
