"""Messages as they happen: one look at the database a second for all who follow, however many."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

_log = logging.getLogger(__name__)
_MAX_BEHIND = 1_000
"""Messages that a follower may be behind; one who reads more slowly is sent away, and resumes where it was."""
_HOLE_S = 2.0
"""A number that is missing may belong to a transaction that has not ended; after this long it was rolled back."""
_OVERLAP = 100
"""Numbers before the newest that a feed looks at again when it starts, for those that are being written."""
STREAM_S = 600.0
"""Time after which a follower has to connect again: its token may have been revoked."""


@dataclass(frozen=True, slots=True)
class FeedMessage:
    id: int
    """What a follower resumes after; 0 for what need not be resumed."""
    event: str
    fleet: str
    data: str

    def encode(self) -> bytes:
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.event}\ndata: {self.data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class FeedSource:
    """Source of a feed's messages; called in threads."""

    after: Callable[[int], list[FeedMessage]]
    """Some of those after an id, oldest first."""
    newest: Callable[[], int]
    passing: Callable[[], list[FeedMessage]] = list
    """What is worth a look now and nothing later: not numbered."""


class Feed:
    """Make it on the loop that it is followed on."""

    def __init__(self, source: FeedSource, poll_s: float, heartbeat_s: float) -> None:
        self._source = source
        self._poll_s = poll_s
        self._heartbeat_s = heartbeat_s
        self._followers: set[asyncio.Queue[FeedMessage | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._last = 0
        self._holes: dict[int, float] = {}
        """First number that is missing → when that was noticed."""

    @property
    def followers(self) -> int:
        return len(self._followers)

    @property
    def is_looking(self) -> bool:
        return self._task is not None

    async def follow(self, after: int | None, fleet: str | None) -> AsyncIterator[bytes]:
        """Messages from `after` on, or from now; of all fleets, or of one. Ends after STREAM_S, and when its reader is
        too slow."""
        queue: asyncio.Queue[FeedMessage | None] = asyncio.Queue(_MAX_BEHIND)
        self._followers.add(queue)
        try:
            yield b"retry: 2000\n\n"
            newest = await run_in_threadpool(self._source.newest)
            if self._task is None:
                self._last = max(0, newest - _OVERLAP)
                self._task = asyncio.create_task(self._look())
            sent = newest if after is None else after
            while sent < self._last:
                missed = [m for m in await run_in_threadpool(self._source.after, sent) if m.id <= self._last]
                for message in missed:
                    if fleet in (None, message.fleet):
                        yield message.encode()
                sent = missed[-1].id if missed else self._last
            end_s = time.monotonic() + STREAM_S
            while time.monotonic() < end_s:
                try:
                    news = await asyncio.wait_for(queue.get(), self._heartbeat_s)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if news is None:  # sent away: the follower is too slow, or the process ends
                    return
                if fleet in (None, news.fleet) and (not news.id or news.id > sent):
                    yield news.encode()
        finally:
            self._followers.discard(queue)
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def close(self) -> None:
        for queue in tuple(self._followers):
            self._send_away(queue)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        while True:
            try:
                news = self._settled(await run_in_threadpool(self._source.after, self._last))
                passing = await run_in_threadpool(self._source.passing)
            except Exception as error:
                _log.warning("no news can be read: %s", error)
                news, passing = [], []
            for message in (*news, *passing):
                self._last = max(self._last, message.id)
                for queue in tuple(self._followers):
                    if queue.full():
                        self._send_away(queue)
                    else:
                        queue.put_nowait(message)
            await asyncio.sleep(self._poll_s)

    def _settled(self, news: list[FeedMessage]) -> list[FeedMessage]:
        """Messages before which nothing can appear later: writers commit in another order than they are numbered."""
        now_s, expected = time.monotonic(), self._last + 1
        for place, message in enumerate(news):
            if message.id != expected and now_s - self._holes.setdefault(expected, now_s) < _HOLE_S:
                return news[:place]
            expected = message.id + 1
        self._holes = {at: since for at, since in self._holes.items() if at >= expected}
        return news

    def _send_away(self, queue: asyncio.Queue[FeedMessage | None]) -> None:
        self._followers.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
