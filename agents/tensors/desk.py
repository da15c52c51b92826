"""The book of a sidecar for its threads: one change at a time, whose answers go to those who wait for them."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.messages.to_tensor_client import ToTensorClient
from agents.tensors.book import Book
from agents.tensors.entry import Pull
from agents.tensors.settings import SidecarSettings
from agents.tensors.slab import Extent
from agents.transfer.errors import StoreFullError
from agents.transfer.memory import Segment


class Desk:
    def __init__(self, settings: SidecarSettings, start_pull: Callable[[Pull], None]) -> None:
        """Takes the memory of the slab. Raises StoreFullError."""
        self.settings = settings
        self.segment = _reserved(settings.slab_bytes)
        self._bytes = self.segment.writable()
        self._book = Book(settings)
        self._lock = threading.Lock()
        self._start_pull = start_pull
        self._receivers: dict[int, Callable[[ToTensorClient], None]] = {}
        self._bells: set[int] = set()
        """Event descriptors of threads that hear their connections too."""
        self._clients = 0

    def bytes_of(self, extent: Extent) -> memoryview:
        return self._bytes[extent.offset : extent.offset + extent.size]

    def join(self, account: str, receive: Callable[[ToTensorClient], None]) -> int:
        """Number of a new client. `receive`: called with its answers, on any thread, and must not wait."""
        with self.change() as book:
            self._clients += 1
            book.join(self._clients, account)
            self._receivers[self._clients] = receive
            return self._clients

    def lost(self, client: int, now_s: float) -> None:
        """Nobody can answer it any more."""
        with self.change() as book:
            book.lost(client, now_s)
            del self._receivers[client]

    @contextmanager
    def change(self) -> Iterator[Book]:
        """The book, for what must not wait."""
        with self._lock:
            try:
                yield self._book
            finally:
                self._pass_on()

    @contextmanager
    def bell(self) -> Iterator[int]:
        """An event descriptor that can be read when something has happened."""
        made = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        with self._lock:
            self._bells.add(made)
        try:
            yield made
        finally:
            with self._lock:
                self._bells.remove(made)
            os.close(made)

    def _pass_on(self) -> None:
        book = self._book
        while book.answers:
            client, answer = book.answers.popleft()
            if (receive := self._receivers.get(client)) is not None:
                receive(answer)
        while book.pulls:
            self._start_pull(book.pulls.popleft())
        if book.has_changed:
            book.has_changed = False
            for bell in self._bells:
                os.eventfd_write(bell, 1)


def _reserved(size: int) -> Segment:
    """Memory whose pages are taken now, and not when somebody writes: who is out of memory then is killed. Raises
    StoreFullError."""
    if size > (available := _available_bytes()):
        raise StoreFullError(f"a slab of {size} bytes is more than the {available} that this node has left")
    segment = Segment.allocate(size)
    try:
        os.posix_fallocate(segment.descriptor, 0, size)
    except OSError as error:
        raise StoreFullError(f"the system has no room for a slab of {size} bytes: {error}") from error
    return segment


def _available_bytes() -> int:
    """Memory that can be had without swapping, by Linux's own estimate."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
