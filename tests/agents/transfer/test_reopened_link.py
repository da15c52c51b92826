"""A link has one connection at a time that is used, and says which of them broke by itself."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from agents.transfer.errors import LinkLostError
from agents.transfer.link import LinkEnd
from agents.transfer.meeting import LinkListener
from agents.transfer.reopened_link import ReopenedLink

PATIENCE_S = 60
STALL_S = 20.0


class Ends:
    """Other ends of a link, by the order in which they were met."""

    def __init__(self) -> None:
        self._listener = LinkListener("127.0.0.1")
        self.met: list[LinkEnd] = []
        self.served: SimpleQueue[bytes] = SimpleQueue()
        self.broken: SimpleQueue[int] = SimpleQueue()
        self._users = threading.Semaphore(1)
        self.link = ReopenedLink("L", lambda epoch, _: self.broken.put(epoch))

    def open(self, epoch: int) -> LinkEnd:
        self.link.open(epoch, self._meet, self._serve)
        end = self._listener.admit(self._listener.listening.accept()[0], STALL_S)
        assert end is not None
        self.met.append(end)
        return end

    def close(self) -> None:
        self.link.close()
        for end in self.met:
            end.close()
        self._listener.listening.close()

    def _meet(self) -> LinkEnd:
        return self._listener.address.connect(STALL_S)

    def _serve(self, end: LinkEnd) -> None:
        assert self._users.acquire(blocking=False), "the connection before is still used"
        try:
            while self.link.is_latest(end):
                self.served.put(end.receive(1, is_due=False))
        finally:
            self._users.release()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def is_hung_up(end: LinkEnd) -> bool:
    with pytest.raises(LinkLostError):
        end.receive(1)
    return True


def test_a_connection_is_hung_up_by_the_next_without_a_word(ends: Ends) -> None:
    for epoch in range(1, 6):
        end = ends.open(epoch)
        end.send(bytes([epoch]))
        while ends.served.get(timeout=PATIENCE_S) != bytes([epoch]):
            pass
        assert all(is_hung_up(former) for former in ends.met[:-1])
    assert ends.broken.empty()


def test_one_that_breaks_by_itself_is_reported_with_its_epoch_and_the_next_is_used(ends: Ends) -> None:
    ends.open(7).hang_up()
    assert ends.broken.get(timeout=PATIENCE_S) == 7
    ends.open(8).send(b"x")
    assert ends.served.get(timeout=PATIENCE_S) == b"x"


def test_a_link_that_nobody_meets_is_reported_too(ends: Ends) -> None:
    def meet() -> LinkEnd:
        raise LinkLostError("nobody came")

    ends.link.open(3, meet, ends._serve)
    assert ends.broken.get(timeout=PATIENCE_S) == 3


def test_closed_it_hangs_up_and_reports_nothing(ends: Ends) -> None:
    end = ends.open(1)
    end.send(b"x")
    assert ends.served.get(timeout=PATIENCE_S) == b"x"
    ends.link.close()
    assert is_hung_up(end)
    assert ends.broken.empty()
