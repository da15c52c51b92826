"""Whatever producers and consumers do in whatever order, and whoever dies: no byte has two owners, none is lost."""

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_sidecar import (
    AdoptTensor,
    ClaimChunk,
    CommitChunk,
    CreateTensor,
    EndStream,
    LeaveTensor,
    ReleaseChunk,
    SidecarAddress,
    TakeChunk,
    WithdrawTensor,
)
from agents.messages.to_tensor_client import Accepted, Adopted, ChunkHere, Granted, TensorEnded, TensorRefused
from agents.tensors.book import Book
from agents.tensors.settings import SidecarSettings
from agents.tensors.slab import ALIGNMENT as PAGE
from agents.transfer.errors import BadPieceError

SETTINGS = SidecarSettings(16 * PAGE, 8 * PAGE, 4 * PAGE, chunk_bytes=2 * PAGE)
KEY = "k" * 32


@dataclass
class Side:
    """A book with the memory that it speaks of, and clients that check what they are told by what lies there."""

    book: Book = field(default_factory=lambda: Book(SETTINGS))
    memory: bytearray = field(default_factory=lambda: bytearray(SETTINGS.slab_bytes))
    now_s: float = 0.0
    calls: int = 0

    def join(self, *clients: int) -> None:
        for client in clients:
            self.book.join(client, f"process {client}")

    def ask(self, client: int, kind: type, *fields: object) -> object:
        """The answer, None where it is still to come."""
        self.calls += 1
        self.book.ask(client, kind(self.calls, *fields), self.now_s)
        return next((answer for to, answer in self.answers() if to == client and answer.call == self.calls), None)

    def answers(self) -> list[tuple[int, object]]:
        found = list(self.book.answers)
        self.book.answers.clear()
        return found

    def create(self, client: int, name: str, size: int, consumers: int = 1, key: str | None = None) -> object:
        spec = TensorSpec("uint8", (size,))
        return self.ask(client, CreateTensor, name, spec, consumers, 60.0, 4, key)

    def put(self, client: int, name: str, size: int, consumers: int = 1, key: str | None = None) -> None:
        granted = self.create(client, name, size, consumers, key)
        assert isinstance(granted, Granted)
        for index, at in enumerate(range(0, size, SETTINGS.chunk_bytes)):
            part = min(SETTINGS.chunk_bytes, size - at)
            assert isinstance(self.ask(client, CommitChunk, name, index, part), Accepted)

    def take(self, client: int, name: str, index: int = 0, consumer: int | None = None, **terms: object) -> object:
        source, consumers = terms.get("source"), terms.get("consumers", 1)
        who = f"{client if consumer is None else consumer:032x}"
        return self.ask(client, TakeChunk, name, source, consumers, who, index, 60.0)


@pytest.fixture
def side() -> Side:
    made = Side()
    made.join(1, 2, 3)
    return made


# A random course of a whole node.


@dataclass
class Written:
    """A tensor as its producer sees it."""

    name: str
    mark: int
    sizes: list[int]
    is_stream: bool
    granted: deque[tuple[int, int]] = field(default_factory=deque)
    waits: bool = True
    committed: int = 0
    is_over: bool = False


@dataclass
class Read:
    """A consumer of a tensor."""

    consumer: str
    written: Written
    got: int = 0
    waits: bool = False
    views: list[tuple[int, int, int]] = field(default_factory=list)
    """(offset, size, mark) of each chunk that it looks at."""
    end: object = None


@dataclass
class Process:
    number: int
    writes: dict[str, Written] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    calls: dict[int, tuple] = field(default_factory=dict)


class Course:
    """Drives a book with what processes may do next. Each chunk is written with one mark, and read twice: when it comes
    and when it is released."""

    def __init__(self) -> None:
        self.side = Side()
        self.processes: list[Process] = []
        self.made = 0
        self.all: list[Written] = []
        for _ in range(3):
            self.join()

    def join(self) -> None:
        self.made += 1
        self.side.join(self.made)
        self.processes.append(Process(self.made))

    def ask(self, process: Process, kind: type, *fields: object, about: tuple) -> None:
        self.side.calls += 1
        process.calls[self.side.calls] = about
        self.side.book.ask(process.number, kind(self.side.calls, *fields), self.side.now_s)
        self.hear()

    def hear(self) -> None:
        for client, answer in self.side.answers():
            process = next(each for each in self.processes if each.number == client)
            what, *about = process.calls.pop(answer.call)
            getattr(self, f"heard_{what}")(process, answer, *about)

    def heard_grant(self, _: Process, answer: object, written: Written) -> None:
        written.waits = False
        if isinstance(answer, TensorRefused):
            written.is_over = True
            return
        assert isinstance(answer, Granted)
        at = answer.offset
        rest = [written.sizes[written.committed + len(written.granted)]] if written.is_stream else written.sizes
        if written.is_stream and not answer.size:
            return
        for size in rest:
            written.granted.append((at, size))
            self.side.memory[at : at + size] = bytes([written.mark]) * size
            at += size

    def heard_commit(self, process: Process, answer: object, written: Written) -> None:
        if isinstance(answer, TensorRefused):
            self.drop_grants(process, written)

    def heard_end(self, _: Process, answer: object, __: Written) -> None:
        assert isinstance(answer, Accepted | TensorRefused)

    def heard_take(self, _: Process, answer: object, read: Read) -> None:
        read.waits = False
        if not isinstance(answer, ChunkHere):
            read.end = answer
            return
        assert answer.size == read.written.sizes[read.got], "in order, whole"
        view = (answer.offset, answer.size, read.written.mark)
        self.check(view)
        read.views.append(view)
        read.got += 1

    def check(self, view: tuple[int, int, int]) -> None:
        offset, size, mark = view
        assert set(self.side.memory[offset : offset + size]) == {mark}, "nobody wrote there meanwhile"

    def drop_grants(self, process: Process, written: Written) -> None:
        written.is_over = True
        while written.granted:
            offset, size = written.granted.popleft()
            assert set(self.side.memory[offset : offset + size]) == {written.mark}
            self.side.book.release(process.number, ReleaseChunk(offset))

    def act(self, kind: str, who: int, which: int, size: int) -> None:
        process = self.processes[who % len(self.processes)]
        writing = [each for each in process.writes.values() if not each.is_over]
        match kind:
            case "create":
                self.create(process, which, size)
            case "step" if writing:
                self.step(process, writing[which % len(writing)])
            case "withdraw" if writing:
                written = writing[which % len(writing)]
                self.ask(process, WithdrawTensor, written.name, about=("end", written))
                self.drop_grants(process, written)
            case "take" if self.all:
                self.take(process, which)
            case "release":
                for read in process.reads:
                    for view in read.views[: 1 + which % 2]:
                        self.check(view)
                        self.side.book.release(process.number, ReleaseChunk(view[0]))
                        read.views.remove(view)
            case "leave" if process.reads:
                read = process.reads[which % len(process.reads)]
                read.end = read.end or "left"
                self.side.book.leave(LeaveTensor(read.written.name, None, read.consumer))
            case "die":
                self.side.book.lost(process.number, self.side.now_s)
                self.hear()
                for read in process.reads:
                    for view in read.views:
                        self.check(view)  # it may live
                self.side.book.bury(process.number)
                self.processes.remove(process)
                self.join()
            case "time":
                self.side.now_s += which
                self.side.book.pass_time(self.side.now_s)
        self.hear()

    def create(self, process: Process, which: int, size: int) -> None:
        is_stream, number = bool(which % 2), len(self.all) + 1
        chunk = SETTINGS.chunk_bytes
        sizes = [size] * (1 + which % 3) if is_stream else [min(chunk, size - at) for at in range(0, size, chunk)]
        written = Written(f"t{number}", number % 255 + 1, sizes, is_stream)
        self.all.append(written)
        process.writes[written.name] = written
        spec = TensorSpec("uint8", () if is_stream else (size,), is_stream)
        key = KEY + str(which % 4) if which % 5 == 0 else None
        message = (written.name, spec, 1 + which % 2, 60.0, 1 + which % 3, key)
        self.ask(process, CreateTensor, *message, about=("grant", written))

    def step(self, process: Process, written: Written) -> None:
        """Commits what is granted, claims the next chunk, or ends."""
        if written.granted:
            _, size = written.granted.popleft()
            index, written.committed = written.committed, written.committed + 1
            self.ask(process, CommitChunk, written.name, index, size, about=("commit", written))
            written.is_over = written.is_over or (not written.is_stream and not written.granted)
        elif not written.waits and written.committed < len(written.sizes):
            written.waits = True
            size = written.sizes[written.committed]
            self.ask(process, ClaimChunk, written.name, written.committed, size, about=("grant", written))
        elif not written.waits:
            self.ask(process, EndStream, written.name, about=("end", written))
            written.is_over = True

    def take(self, process: Process, which: int) -> None:
        open_reads = [read for read in process.reads if read.end is None and not read.waits]
        if which % 3 and open_reads:
            read = open_reads[which % len(open_reads)]
        else:
            read = Read(f"{self.side.calls:032x}", self.all[-1 - which % min(4, len(self.all))])
            process.reads.append(read)
        read.waits = True
        message = (read.written.name, None, 1, read.consumer, read.got, 30.0)
        self.ask(process, TakeChunk, *message, about=("take", read))


KINDS = ("create", "create", "step", "step", "step", "step", "take", "take", "take", "release", "leave", "withdraw",
         "die", "time")  # fmt: skip
ACTIONS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 29), st.integers(1, 5 * PAGE)), max_size=80
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_any_course_leaves_nothing_and_nobody_reads_what_another_wrote(actions: list[tuple]) -> None:
    course = Course()
    for action in actions:
        course.act(*action)
        for process in course.processes:
            assert course.side.book.slab.charged(f"process {process.number}") <= SETTINGS.quota_bytes
            for read in process.reads:
                for view in read.views:
                    course.check(view)
                complete = [each for each in course.all if each is read.written and each.committed == len(each.sizes)]
                assert not isinstance(read.end, TensorEnded) or (complete and read.got == len(read.written.sizes))
    for process in list(course.processes):
        course.side.book.lost(process.number, course.side.now_s)
        course.side.book.bury(process.number)
    course.side.book.pass_time(1e6)
    while course.side.book.kept.give_up_one():
        pass
    assert course.side.book.slab.free_bytes == SETTINGS.slab_bytes
    assert not course.side.book.tensors


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 8 * PAGE), min_size=1, max_size=12), st.integers(1, 3), st.randoms())
def test_a_full_slab_makes_producers_wait_and_loses_nothing(sizes: list[int], consumers: int, random: object) -> None:
    """Each of them is written and read whole by all its consumers, however small the slab is."""
    course = Course()
    for number, size in enumerate(sizes):
        process = course.processes[number % 3]
        written = Written(f"t{number}", number % 255 + 1, [], False)
        written.sizes = [min(2 * PAGE, size - at) for at in range(0, size, 2 * PAGE)]
        course.all.append(written)
        process.writes[written.name] = written
        message = (written.name, TensorSpec("uint8", (size,)), consumers, 60.0, 1, None)
        course.ask(process, CreateTensor, *message, about=("grant", written))
        for place in range(consumers):
            course.processes[place].reads.append(Read(f"{number * 3 + place:032x}", written))
    for _ in range(10_000):
        writing = [(each, its) for each in course.processes for its in each.writes.values() if its.granted]
        reading = [
            (each, read)
            for each in course.processes
            for read in each.reads
            if read.end is None and (not read.waits or read.views)
        ]
        if not writing and not reading:
            break
        if writing and (not reading or random.random() < 0.5):  # type: ignore[attr-defined]
            course.step(*random.choice(writing))  # type: ignore[attr-defined]
            continue
        process, read = random.choice(reading)  # type: ignore[attr-defined]
        if read.views:
            course.side.book.release(process.number, ReleaseChunk(read.views.pop()[0]))
            course.hear()
        elif read.got == len(read.written.sizes):
            read.end = "has all"
            course.side.book.leave(LeaveTensor(read.written.name, None, read.consumer))
        else:
            read.waits = True
            message = (read.written.name, None, 1, read.consumer, read.got, 60.0)
            course.ask(process, TakeChunk, *message, about=("take", read))
    for process in course.processes:
        assert all(read.got == len(read.written.sizes) for read in process.reads)
    assert course.side.book.slab.free_bytes == SETTINGS.slab_bytes
    assert not course.side.book.tensors


# Single promises.


def test_a_large_claim_is_not_overtaken_by_small_ones_but_by_those_of_others_where_it_is_over_its_quota(
    side: Side,
) -> None:
    side.put(1, "a", 8 * PAGE)
    side.put(2, "b", 5 * PAGE)
    assert side.create(1, "over quota", PAGE) is None
    assert side.create(3, "large", 6 * PAGE) is None
    assert side.create(2, "small", PAGE) is None, "there is room, but the large one was first"
    chunk = side.take(3, "a")
    assert isinstance(chunk, ChunkHere)
    for index in range(1, 4):
        side.take(3, "a", index)
    side.book.leave(LeaveTensor("a", None, f"{3:032x}"))
    for offset in range(0, 8 * PAGE, 2 * PAGE):
        side.book.release(3, ReleaseChunk(offset))
    assert {to for to, answer in side.answers() if isinstance(answer, Granted)} == {1, 2, 3}


def test_what_never_fits_is_refused_at_once(side: Side) -> None:
    refused = side.create(1, "huge", 8 * PAGE + 1)
    assert isinstance(refused, TensorRefused)
    assert refused.fault == "full"


@pytest.mark.parametrize(("index", "size"), [(1, PAGE), (0, PAGE - 1), (0, PAGE + 1), (2, PAGE)])
def test_a_chunk_of_another_size_or_order_ends_its_tensor_with_an_error_at_both_ends(
    side: Side, index: int, size: int
) -> None:
    assert isinstance(side.create(1, "a", PAGE), Granted)
    assert side.take(2, "a") is None
    side.calls += 1
    side.book.ask(1, CommitChunk(side.calls, "a", index, size), 0.0)
    answers = dict(side.answers())
    assert isinstance(answers[1], TensorRefused)
    assert answers[1].fault == "bad"
    assert isinstance(answers[2], TensorRefused)
    assert answers[2].fault == "gone", "whoever waits makes it again"


def test_chunks_of_a_stream_are_whole_rows_and_claimed_in_order(side: Side) -> None:
    spec = TensorSpec("float32", (3,), is_stream=True)
    assert isinstance(side.ask(1, CreateTensor, "s", spec, 1, 60.0, 4), Granted)
    for index, size in ((0, 0), (0, 13), (1, 12), (0, 9 * PAGE - 9 * PAGE % 12)):
        assert isinstance(side.ask(1, ClaimChunk, "s", index, size), TensorRefused)
    assert isinstance(side.ask(1, ClaimChunk, "s", 0, 24), Granted)
    assert isinstance(side.ask(1, EndStream, "s"), TensorRefused), "before its chunk is there"


def test_a_stream_waits_for_its_slowest_consumer(side: Side) -> None:
    spec = TensorSpec("uint8", (), is_stream=True)
    side.ask(1, CreateTensor, "s", spec, 1, 60.0, 2)
    for index in range(2):
        side.ask(1, ClaimChunk, "s", index, 100)
        side.ask(1, CommitChunk, "s", index, 100)
    assert side.ask(1, ClaimChunk, "s", 2, 100) is None
    side.calls += 1
    side.book.ask(2, TakeChunk(side.calls, "s", None, 1, "0" * 32, 0, 60.0), 0.0)
    assert {type(answer) for _, answer in side.answers()} == {ChunkHere, Granted}


def test_a_stream_lasts_as_long_as_it_goes_on(side: Side) -> None:
    side.ask(1, CreateTensor, "s", TensorSpec("uint8", (), is_stream=True), 1, 60.0, 4)
    for index in range(3):
        assert isinstance(side.ask(1, ClaimChunk, "s", index, 100), Granted)
        assert isinstance(side.ask(1, CommitChunk, "s", index, 100), Accepted)
        side.now_s += 50
        side.book.pass_time(side.now_s)
        assert isinstance(side.take(2, "s", index), ChunkHere)
        side.now_s += 50
        side.book.pass_time(side.now_s)
    side.now_s += 10
    side.book.pass_time(side.now_s)
    gone = side.take(2, "s", 3)
    assert isinstance(gone, TensorRefused)
    assert gone.fault == "gone"


def test_an_unknown_tensor_is_waited_for_and_then_refused(side: Side) -> None:
    assert side.take(1, "nothing") is None
    side.book.pass_time(59.0)
    assert not side.answers()
    side.book.pass_time(60.0)
    [(client, refused)] = side.answers()
    assert client == 1
    assert isinstance(refused, TensorRefused)
    assert refused.fault == "gone"


def test_only_its_producer_writes_a_tensor_and_nobody_releases_what_is_not_his(side: Side) -> None:
    granted = side.create(1, "a", PAGE)
    assert isinstance(granted, Granted)
    for kind, *fields in ((CommitChunk, "a", 0, PAGE), (WithdrawTensor, "a"), (EndStream, "a")):
        refused = side.ask(2, kind, *fields)
        assert isinstance(refused, TensorRefused)
        assert refused.fault == "bad"
    for offset in (granted.offset, 5 * PAGE, 7):
        with pytest.raises(BadPieceError):
            side.book.release(2, ReleaseChunk(offset))
    assert isinstance(side.create(2, "a", PAGE), TensorRefused), "the name is taken"
    assert isinstance(side.ask(1, CommitChunk, "a", 0, PAGE), Accepted)


def test_what_was_released_cannot_be_committed_and_is_freed_once(side: Side) -> None:
    granted = side.create(1, "a", PAGE)
    assert isinstance(granted, Granted)
    assert side.take(2, "a") is None
    side.book.release(1, ReleaseChunk(granted.offset))
    side.calls += 1
    side.book.ask(1, CommitChunk(side.calls, "a", 0, PAGE), 0.0)
    answers = dict(side.answers())
    assert isinstance(answers[1], TensorRefused)
    assert answers[1].fault == "bad"
    assert isinstance(answers[2], TensorRefused)
    side.put(3, "b", PAGE)
    side.book.pass_time(50.0)
    assert isinstance(side.take(2, "b"), ChunkHere), "it lies where the other would have been freed again"
    side.book.pass_time(1000.0)
    for client in (1, 2, 3):
        side.book.lost(client, 1000.0)
        side.book.bury(client)
    assert side.book.slab.free_bytes == SETTINGS.slab_bytes
    assert not side.book.tensors


def test_what_a_lost_process_holds_comes_back_when_it_is_known_to_be_dead(side: Side) -> None:
    side.put(1, "read", 2 * PAGE)
    assert isinstance(side.take(2, "read"), ChunkHere)
    assert isinstance(side.create(2, "written", 2 * PAGE), Granted)
    assert side.take(3, "written") is None
    side.book.lost(2, 0.0)
    [(client, refused)] = side.answers()
    assert (client, refused.fault) == (3, "gone"), "who waits is told at once"
    assert side.book.slab.free_bytes == SETTINGS.slab_bytes - 4 * PAGE, "it may still write, and read"
    side.book.bury(2)
    assert side.book.slab.free_bytes == SETTINGS.slab_bytes


def test_what_a_dead_producer_completed_is_still_there(side: Side) -> None:
    side.put(1, "a", PAGE)
    side.book.lost(1, 0.0)
    side.book.bury(1)
    assert isinstance(side.take(2, "a"), ChunkHere)


def test_rows_that_are_kept_are_found_and_the_least_recently_used_give_way(side: Side) -> None:
    def read(name: str) -> None:
        chunk = side.take(2, name)
        assert isinstance(chunk, ChunkHere)
        side.book.leave(LeaveTensor(name, None, f"{2:032x}"))
        side.book.release(2, ReleaseChunk(chunk.offset))

    for number in range(2):
        side.put(1, f"a{number}", 2 * PAGE, key=f"{KEY}{number}")
        read(f"a{number}")
    assert side.book.slab.charged("process 1") == 0, "what is kept is nobody's quota"
    adopted = side.ask(1, AdoptTensor, "again", KEY + "0", 1, 60.0)
    assert adopted == Adopted(side.calls, TensorSpec("uint8", (2 * PAGE,)))
    read("again")
    side.put(1, "a2", 2 * PAGE, key=KEY + "2")
    read("a2")
    found = [side.ask(1, AdoptTensor, f"f{number}", f"{KEY}{number}", 1, 60.0).spec for number in range(3)]
    assert [spec is None for spec in found] == [False, True, False], "1 was not used the longest"
    assert side.create(3, "large", 8 * PAGE), "there is room without giving anything up"
    assert side.create(2, "more", 6 * PAGE) is None, "rows that somebody is to take are not given up"
    for name in ("f0", "f2"):
        read(name)
    assert {type(answer) for _, answer in side.answers()} == {Granted}
    assert any(side.book.kept.find(KEY + number) is None for number in "02")


def test_a_group_is_as_many_consumers_and_what_is_pulled_is_pulled_once(side: Side) -> None:
    source = SidecarAddress("10.0.0.2", 4000, b"t" * 32)
    for client in (1, 2):
        assert side.take(client, "far", source=source, consumers=2) is None
    [pull] = side.book.pulls
    assert (pull.remote_name, pull.consumers, pull.source) == ("far", 2, source)
    side.put(3, pull.name, PAGE, consumers=2)
    assert isinstance(side.take(3, "far"), type(None)), "what is here by that name is another tensor"
    side.book.pull_ended(pull, None)
    side.book.address = source
    assert side.take(3, "far", source=source) is None, "one's own is not pulled"
    assert len(side.book.pulls) == 1


def test_the_ranks_of_a_group_each_get_all_chunks_of_what_was_pulled(side: Side) -> None:
    source = SidecarAddress("10.0.0.2", 4000, b"t" * 32)
    side.take(1, "far", source=source, consumers=2)
    side.take(2, "far", source=source, consumers=2)
    pull = side.book.pulls.popleft()
    granted = side.create(3, pull.name, PAGE, consumers=2)
    assert isinstance(granted, Granted)
    side.calls += 1
    side.book.ask(3, CommitChunk(side.calls, pull.name, 0, PAGE), 0.0)
    assert {to for to, answer in side.answers() if isinstance(answer, ChunkHere)} == {1, 2}


def test_who_waits_for_a_pull_that_fails_is_told_why(side: Side) -> None:
    source = SidecarAddress("10.0.0.2", 4000, b"t" * 32)
    side.take(1, "far", source=source)
    side.book.pull_ended(side.book.pulls.popleft(), BadPieceError("it is another's"))
    [(client, refused)] = side.answers()
    assert (client, refused.fault) == (1, "bad")
    side.take(1, "far", source=source)
    assert len(side.book.pulls) == 1, "the next one tries again"
