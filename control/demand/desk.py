"""The demand desk: takes what gateways report, stores what is to be kept, and wakes whoever launches when somebody
waits."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from agents.channels.address import Address
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.to_demand_desk import Offered, Recent, ToDemandDesk, Waiting
from agents.messages.to_reporter import OfferedStored
from control.db.errors import DatabaseUnavailableError, UnstorableError
from control.demand.heard_load import HeardLoad

_log = logging.getLogger(__name__)

_MOST_HELD = 2048
"""Reports that are not stored yet; more are sent again by who has them."""
_AT_ONCE = 64
_ROLL_UP_S = 3600.0
_AGAIN_S = 2.0
"""Pause after the database did not answer."""


class DemandStore(Protocol):
    """`control.db.demand.PostgresDemand`."""

    def record(self, reports: Iterable[tuple[str, Offered]], now: datetime) -> None: ...

    def hear_waiting(self, gateway: str, waiting: Waiting, now: datetime) -> None: ...

    def hear_recent(self, said: Mapping[str, Recent | None], now: datetime) -> None: ...

    def roll_up(self, now: datetime) -> None: ...


class DemandDesk:
    """Make it on a running loop; it listens until closed."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        gateways: Mapping[str, str],
        store: DemandStore,
        clock: Callable[[], datetime],
        wake: Callable[[str, str], None],
        heard: HeardLoad,
    ) -> None:
        """`gateways`: public key → name. `wake` is told the fleet, and why, when requests begin to wait for a
        model that nothing serves, once that is on record. `heard` is told what came in the last seconds. Raises
        OSError: the address is taken."""
        self._store = store
        self._clock = clock
        self._wake = wake
        self._heard = heard
        self._reports: deque[tuple[Peer, Offered]] = deque()
        self._waiting: dict[str, Waiting] = {}
        """Reports that are not on record yet, by process of a gateway: each says what it holds itself."""
        self._waited: dict[str, frozenset[tuple[str, str]]] = {}
        """Fleet and app of what is held, by process; of those that hold anything."""
        self._recent: dict[str, Recent | None] = {}
        """What is not on record yet of the last seconds, by process; None: it has left."""
        self._news = asyncio.Event()
        self._rolled_up_s = -_ROLL_UP_S
        self._loop = asyncio.get_running_loop()
        settings = ChannelSettings(max_message_bytes=4 << 20, queue_messages=256)
        self._listener: Listener[ToDemandDesk] = Listener(bind, keys, gateways, ToDemandDesk, self, settings)
        self.address = Address(self._listener.endpoint, keys.public)

    async def run(self) -> None:
        """Store reports until cancelled. A database that does not answer loses nothing: gateways send again."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ROLL_UP_S):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._hear_who_waits()
                await self._store_reports()
                await self._store_recent()
                await self._roll_up()
            except DatabaseUnavailableError as error:
                _log.warning("%s", error)
                await asyncio.sleep(_AGAIN_S)
                self._news.set()

    def close(self) -> None:
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        """It says what it has."""

    def received(self, peer: Peer, message: ToDemandDesk) -> None:
        if isinstance(message, Recent):
            self._heard.hear(peer.connection, message, self._clock())
            self._recent[_process(peer)] = message
        elif isinstance(message, Waiting):
            self._waiting[_process(peer)] = message
        elif len(self._reports) < _MOST_HELD:
            self._reports.append((peer, message))
        self._news.set()

    def left(self, peer: Peer, _reason: str) -> None:
        self._heard.forget(peer.connection)
        self._waiting[_process(peer)] = Waiting(())
        self._recent[_process(peer)] = None
        self._news.set()

    async def _hear_who_waits(self) -> None:
        while self._waiting:
            process = next(iter(self._waiting))
            said = self._waiting[process]
            is_kept = await asyncio.to_thread(_kept, process, self._store.hear_waiting, process, said, self._clock())
            if self._waiting.get(process) is said:
                del self._waiting[process]
            now = frozenset((line.fleet, line.app) for line in said.lines if line.requests and is_kept)
            for fleet, app in sorted(now - self._waited.pop(process, frozenset())):
                self._wake(fleet, f"requests wait for {app}, which nothing serves")
            if now:
                self._waited[process] = now

    async def _store_reports(self) -> None:
        while self._reports:
            batch = [self._reports[n] for n in range(min(_AT_ONCE, len(self._reports)))]
            await asyncio.to_thread(self._record, [(peer.name, r) for peer, r in batch])
            for _ in batch:
                self._reports.popleft()
            for peer, report in batch:
                try:
                    self._listener.send(peer, OfferedStored(report.started_s, report.revision))
                except ChannelError as error:
                    _log.info("%s has to send its report again, as the answer did not reach it: %s", peer.name, error)

    async def _store_recent(self) -> None:
        """For who looks at pools (`control.fleet.pools`): the loop has it in memory."""
        said, self._recent = self._recent, {}
        try:
            if said:
                await asyncio.to_thread(self._store.hear_recent, said, self._clock())
        except DatabaseUnavailableError:
            self._recent = said | self._recent
            raise

    def _record(self, reports: list[tuple[str, Offered]]) -> None:
        """Store all that can be; a report that never can counts as stored, so that its gateway is done with it."""
        try:
            self._store.record(reports, self._clock())
        except UnstorableError:
            for each in reports:
                _kept(each[0], self._store.record, [each], self._clock())

    async def _roll_up(self) -> None:
        if self._loop.time() - self._rolled_up_s >= _ROLL_UP_S:
            await asyncio.to_thread(self._store.roll_up, self._clock())
            self._rolled_up_s = self._loop.time()


def _process(peer: Peer) -> str:
    """Name one of the processes that a gateway of several workers has, which have its key in common."""
    return f"{peer.name}/{peer.connection.hex()}"


def _kept(who: str, store: Callable[..., None], *what: object) -> bool:
    """Store what a gateway says; False: it never can be, and is given up. Raises DatabaseUnavailableError."""
    try:
        store(*what)
    except UnstorableError as error:
        _log.error("what gateway %s says of its load is given up: %s", who, error)
        return False
    return True
