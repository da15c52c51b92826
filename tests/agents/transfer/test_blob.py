"""Whatever happens to a blob in whatever order, nothing of it stays, and every consumer has all of it or an error."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.transfer.blob import TRANSITIONS, Blob, Event, State
from agents.transfer.errors import BadPieceError, BlobGoneError, TransferError

FOREVER_S = 1e9


@dataclass
class Consumer:
    name: str
    home: object
    got: list[int] = field(default_factory=list)
    has_all: bool = False
    error: TransferError | None = None

    def take(self, blob: Blob[int], done: int) -> None:
        """Asks for the next piece, without the `done` pieces before it."""
        if self.has_all or self.error:
            return
        index = len(self.got)
        try:
            piece = blob.take(self.name, self.home, index, min(done, index))
        except TransferError as error:
            self.error = error
            return
        if piece is not None:
            self.got.append(piece)
        elif blob.state is not State.OPEN:
            self.has_all = True


ACTION = st.one_of(
    st.tuples(st.just("add"), st.just(0)),
    st.tuples(st.just("take"), st.integers(0, 3), st.integers(0, 30)),
    st.tuples(st.sampled_from(["lose", "return"]), st.integers(0, 3)),
    st.tuples(st.just("happen"), st.sampled_from([Event.END, Event.END, Event.WITHDRAW, Event.DEADLINE])),
    st.tuples(st.just("expire"), st.just(0)),
)


@given(st.integers(1, 3), st.integers(1, 5), st.lists(ACTION, max_size=60))
def test_any_course_ends_with_nothing_held(consumers: int, ahead: int, actions: list[tuple]) -> None:
    freed: list[int] = []
    blob: Blob[int] = Blob(consumers, ahead, FOREVER_S, freed.append)
    parties = [Consumer(f"c{number}", object()) for number in range(4)]
    added = 0
    former: list[object] = []
    now_s = 0.0
    for action in actions:
        now_s += 1
        match action:
            case ("add", _):
                try:
                    if blob.has_room:
                        blob.commit(added)
                        added += 1
                except (BlobGoneError, BadPieceError):
                    assert blob.state is not State.OPEN
            case ("take", number, done):
                parties[number].take(blob, done)
            case ("lose", number):
                blob.lose(parties[number].home, now_s + 2)
            case ("return", number):
                former.append(parties[number].home)  # that it is lost is noticed late
                parties[number].home = object()
            case ("happen", event):
                blob.happen(event)
            case _:
                blob.expire(now_s)
        assert len(blob._pieces) <= ahead
        assert sorted([*freed, *blob._pieces.values()]) == list(range(added))
    blob.happen(Event.END)
    for party in parties:
        for _ in range(added + 2):
            party.take(blob, added)
        assert party.got == list(range(len(party.got))), "in order, each once"
        assert party.has_all or party.error
        assert not party.has_all or len(party.got) == added
        blob.lose(party.home, now_s)
    for home in former:
        blob.lose(home, now_s)
    blob.expire(now_s)
    blob.expire(FOREVER_S)
    assert not blob._pieces
    assert freed == list(range(added)), "each once, in order"
    assert blob.is_over


@given(st.integers(1, 20), st.integers(1, 3))
def test_without_mishaps_all_consumers_have_all_of_it_and_then_it_is_freed(pieces: int, consumers: int) -> None:
    freed: list[int] = []
    blob: Blob[int] = Blob(consumers, pieces, FOREVER_S, freed.append)
    for number in range(pieces):
        assert blob.has_room
        blob.commit(number)
    blob.happen(Event.END)
    parties = [Consumer(f"c{number}", object()) for number in range(consumers)]
    for party in parties:
        assert blob.state is State.COMPLETE
        while not party.has_all:
            party.take(blob, len(party.got))
        assert party.got == list(range(pieces))
    assert blob.state is State.TAKEN
    assert freed == list(range(pieces))


def test_a_piece_stays_until_the_slowest_and_the_consumer_that_is_still_to_come_have_it() -> None:
    freed: list[int] = []
    blob: Blob[int] = Blob(2, 3, FOREVER_S, freed.append)
    first, second = Consumer("a", "A"), Consumer("b", "B")
    for number in range(3):
        assert blob.has_room
        blob.commit(number)
    for _ in range(3):
        first.take(blob, len(first.got))
    assert not freed
    assert not blob.has_room, "three ahead of whoever is still to come"
    second.take(blob, 0)
    second.take(blob, 1)
    assert freed == [0]
    assert blob.has_room


def test_a_consumer_that_comes_back_in_time_goes_on_and_one_that_does_not_has_left() -> None:
    blob: Blob[int] = Blob(1, 9, FOREVER_S)
    blob.commit(0)
    assert blob.take("a", "first home", 0, 0) == 0
    blob.lose("first home", 5.0)
    blob.expire(4.0)
    assert blob.take("a", "second home", 0, 0) == 0
    blob.lose("first home", 5.0)  # noticed late
    blob.expire(6.0)
    assert blob.state is State.OPEN
    blob.lose("second home", 7.0)
    blob.expire(7.0)
    assert blob.state is State.UNWANTED
    with pytest.raises(BlobGoneError, match="left by all"):
        blob.commit(1)


def test_every_state_but_the_two_live_ones_is_an_end() -> None:
    live = {State.OPEN, State.COMPLETE}
    assert {state for state, _ in TRANSITIONS} == live
    assert set(TRANSITIONS.values()) == set(State) - {State.OPEN}
    for event in Event:
        blob: Blob[int] = Blob(1, 1, FOREVER_S)
        blob.happen(Event.WITHDRAW)
        blob.happen(event)
        assert blob.state is State.WITHDRAWN
