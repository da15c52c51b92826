"""The life of a blob: its producer adds pieces, and each is freed behind the slowest consumer.

A blob is open while pieces come and complete when their number is known. It ends when all the consumers that it is for
have taken it or left, or before that by its producer or its deadline. Then it holds nothing any more, and is kept only
to tell consumers that are still there how it ended.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from agents.transfer.errors import BadPieceError, BlobGoneError

P = TypeVar("P")
"""Memory of a piece."""


class State(StrEnum):
    OPEN = "open"
    COMPLETE = "complete"
    TAKEN = "taken by all its consumers"
    UNWANTED = "left by all its consumers"
    WITHDRAWN = "withdrawn"
    EXPIRED = "past its deadline"


class Event(StrEnum):
    END = "end"
    CONSUMERS_DONE = "consumers done"
    WITHDRAW = "withdraw"
    DEADLINE = "deadline"


TRANSITIONS = {
    (State.OPEN, Event.END): State.COMPLETE,
    (State.OPEN, Event.CONSUMERS_DONE): State.UNWANTED,  # nobody has all of what is not complete
    (State.OPEN, Event.WITHDRAW): State.WITHDRAWN,  # its producer failed, or changed its mind
    (State.OPEN, Event.DEADLINE): State.EXPIRED,
    (State.COMPLETE, Event.CONSUMERS_DONE): State.TAKEN,
    (State.COMPLETE, Event.WITHDRAW): State.WITHDRAWN,
    (State.COMPLETE, Event.DEADLINE): State.EXPIRED,
}


class Blob(Generic[P]):
    def __init__(
        self, consumers: int, ahead: int, deadline_s: float, freed: Callable[[P], object] | None = None
    ) -> None:
        """`consumers`: how many are to take it. `ahead`: pieces that are held for the slowest before the producer
        waits. `freed`: called with each piece that the blob no longer holds."""
        self.state = State.OPEN
        self._consumers = consumers
        self._ahead = ahead
        self._deadline_s = deadline_s
        self._freed = freed
        self._pieces: dict[int, P] = {}
        """Memory of those that are held, by index."""
        self._count = 0
        self._done: dict[str, int] = {}
        """Pieces that each consumer needs no more."""
        self._homes: dict[str, object] = {}
        """Connection of each consumer that has not left, or the time in seconds until which it may come back."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and nobody is there to be told so."""
        return self._has_ended and not self._homes

    def extend(self, deadline_s: float) -> None:
        """Moves its deadline."""
        self._deadline_s = deadline_s

    @property
    def has_room(self) -> bool:
        """Whether the slowest consumer is near enough for another piece. Raises BlobGoneError."""
        self._check(self.state is State.OPEN)
        return self._count - self._needed < self._ahead

    def happen(self, event: Event) -> None:
        """Passes over what comes too late."""
        self.state = TRANSITIONS.get((self.state, event), self.state)
        self._settle()

    def commit(self, piece: P) -> None:
        """Adds the next piece, for which there was room. Raises BlobGoneError."""
        self._check(self.state is State.OPEN)
        self._pieces[self._count] = piece
        self._count += 1

    def take(self, consumer: str, home: object, index: int, done: int) -> P | None:
        """Gives a piece; None where it has not come, or is behind the last of a complete blob. Raises BlobGoneError,
        and BadPieceError for what this consumer cannot have."""
        if consumer not in self._done:
            self._check(len(self._done) < self._consumers, "it has all its consumers")
            self._done[consumer] = 0
            self._homes[consumer] = home
        self._check(consumer in self._homes, "this consumer has left it")
        self._homes[consumer] = home
        self.acknowledge(consumer, done)
        self._check(index >= self._done[consumer], f"piece {index} was let go")
        return self._pieces[index] if index < self._count else None

    def acknowledge(self, consumer: str, done: int) -> None:
        """Notes that a consumer needs the first `done` pieces no more."""
        self._done[consumer] = max(self._done[consumer], min(done, self._count))
        self._settle()

    def leave(self, consumer: str) -> None:
        """The consumer takes no more."""
        self._homes.pop(consumer, None)
        self._settle()

    def done(self, consumer: str) -> int:
        """Pieces that the consumer needs no more."""
        return self._done.get(consumer, 0)

    def lose(self, home: object, until_s: float) -> None:
        """Notes that the connection is gone; its consumers may come back in time."""
        self._homes |= {consumer: until_s for consumer, its in self._homes.items() if its is home}

    def expire(self, now_s: float) -> None:
        for consumer, home in list(self._homes.items()):
            if isinstance(home, float) and home <= now_s:
                del self._homes[consumer]
        self._settle()
        if self._deadline_s <= now_s:
            self.happen(Event.DEADLINE)

    @property
    def _has_ended(self) -> bool:
        return self.state not in (State.OPEN, State.COMPLETE)

    @property
    def _needed(self) -> int:
        """The first piece that somebody still needs."""
        if len(self._done) < self._consumers:
            return 0  # who is still to come needs everything
        return min((self._done[consumer] for consumer in self._homes), default=self._count)

    def _settle(self) -> None:
        """Frees what nobody needs any more."""
        needed = self._count if self._has_ended else self._needed
        while self._pieces and (first := next(iter(self._pieces))) < needed:
            piece = self._pieces.pop(first)
            if self._freed is not None:
                self._freed(piece)
        if self._has_ended:
            return
        have_all = self.state is State.COMPLETE and needed == self._count
        if len(self._done) == self._consumers and (have_all or not self._homes):
            self.happen(Event.CONSUMERS_DONE)

    def _check(self, is_so: bool, fault: str = "it is complete") -> None:
        if self._has_ended and self.state is not State.TAKEN:
            raise BlobGoneError(f"the blob is {self.state}")
        if not is_so:
            raise BadPieceError(f"the blob cannot do that: {fault}")
