"""KV caches on their way between two stepped instances: as a whole, or piece by piece as prompts are computed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from agents.scheduler.orders import Dispatch, StepEntry
from templates_lib.values.placement import HAND_OFF_PIECES

Spans = Sequence[tuple[float, float]]
"""When each stage begins and ends a step."""


@dataclass(slots=True, eq=False)
class HandOff:
    """A KV cache that one attempt has to send."""

    attempt: int
    source: str
    """Instance, as the next."""
    target: str
    order: Dispatch
    unsent: int
    """Stages whose part is not on its way yet."""
    there_s: float
    """When all that is on its way is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    of: HandOff
    stage: int
    number: int
    from_s: float
    """When it could be sent if it were computed."""


@dataclass(slots=True)
class Prompt:
    """What is computed of a prompt."""

    tokens: int = 0
    chunk: int = 0
    """Tokens of the step under way."""
    spans: Spans = ()
    late: list[Piece] = field(default_factory=list)
    """Pieces of it that no step so far computes."""


class Prompts:
    """The prompts of one instance, by run."""

    def __init__(self) -> None:
        self._of: defaultdict[int, Prompt] = defaultdict(Prompt)

    def launch(self, entry: StepEntry, spans: Spans) -> list[Piece]:
        """Take the pieces that had to wait for this step, or one after it."""
        prompt = self._of[entry.run]
        prompt.chunk, prompt.spans = len(entry.token_ids), spans
        late, prompt.late = prompt.late, []
        return late

    def join(self, run: int) -> None:
        prompt = self._of[run]
        prompt.tokens, prompt.chunk = prompt.tokens + prompt.chunk, 0

    def forget(self, run: int) -> None:
        self._of.pop(run, None)

    def send_s(self, piece: Piece) -> float:
        """When a piece can be sent; infinite: `launch` gives it back."""
        order = piece.of.order
        prompt = self._of[order.run]
        tokens = order.tokens * (piece.number + 1) / HAND_OFF_PIECES
        if tokens <= prompt.tokens:
            return piece.from_s
        if tokens > prompt.tokens + prompt.chunk:
            prompt.late.append(piece)
            return inf
        begin_s, end_s = prompt.spans[piece.stage]
        return max(piece.from_s, begin_s + (end_s - begin_s) * ((tokens - prompt.tokens) / prompt.chunk))
