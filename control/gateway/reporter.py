"""Tells the control plane what load the gateway is offered, of late and by intervals, and who waits, when it is there;
until then intervals are kept."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.to_demand_desk import RECENT_PROTOCOL, ToDemandDesk, Waiting, WaitingLine
from agents.messages.to_reporter import OfferedStored, ToReporter
from control.gateway.meter import Meter
from control.gateway.metrics import GatewayMetrics

_log = logging.getLogger(__name__)

_AT_ONCE = 60
"""Intervals in flight: what piled up in a day goes over in some seconds, without filling the channel's queue."""
_AGAIN_S = 5.0
"""What came of late, and who waits, is said this often: the control plane forgets who falls silent."""
_LAST_WORD_S = 1.0
"""Time for what is not stored when the gateway ends."""


class Reporter:
    """Make it on a running loop."""

    def __init__(self, keys: KeyPair, meter: Meter, channel: ChannelSettings, metrics: GatewayMetrics) -> None:
        self._keys = keys
        self._meter = meter
        self._channel = channel
        self._metrics = metrics
        self._dialer: Dialer[ToReporter] | None = None
        self._waiting: dict[tuple[str, str], int] = {}
        self._has_told_recent = False
        """The last that was said of the last seconds is that something came."""
        self._news = asyncio.Event()
        self._stored = asyncio.Event()

    def report_to(self, address: Address | None) -> None:
        """The demand desk; None: there is none, and nothing is said."""
        if self._dialer is not None:
            if self._dialer.address == address:
                return
            self._dialer.close()
            self._dialer = None
        if address is not None:
            self._dialer = Dialer(address, self._keys, "gateway", ToReporter, self, self._channel)

    def take_keys(self, keys: KeyPair) -> None:
        """Be known by other keys from now on; what is not told yet is told then."""
        self._keys = keys
        if self._dialer is not None:
            address = self._dialer.address
            self.report_to(None)
            self.report_to(address)

    def waits(self, fleet: str, app: str, requests: int) -> None:
        """Note how many requests are held for a model. The first one, and the last one gone, are told at once."""
        before = self._waiting.pop((fleet, app), 0)
        if requests:
            self._waiting[fleet, app] = requests
        if (before == 0) is not (requests == 0):
            self._say_who_waits()

    async def run(self) -> None:
        """Report until cancelled: every interval soon after its end, who waits as long as anybody does, and what came
        in the last seconds as long as anything does."""
        while True:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(_AGAIN_S, self._meter.next_s + 0.05)):
                    await self._news.wait()
            if self._waiting:
                self._say_who_waits()
            self._say_what_came()
            self._say_what_is_due()

    async def close(self) -> None:
        """The interval of now is told as far as it went."""
        if self._dialer is not None and self._dialer.is_up:
            self._say_what_is_due(with_open=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_S):
                    while self._meter.due(1, with_open=True):
                        self._stored.clear()
                        await self._stored.wait()
        self.report_to(None)

    def up(self) -> None:
        self._news.set()

    def received(self, message: OfferedStored) -> None:
        self._meter.stored(message.started_s, message.revision)
        self._stored.set()
        if not self._meter.unstored:
            self._metrics.unstored_intervals.set(0)

    def down(self, reason: str) -> None:
        _log.info("the control plane does not hear what load comes (%s): it is told later", reason)

    def _say_what_is_due(self, *, with_open: bool = False) -> None:
        due = self._meter.due(_AT_ONCE, with_open=with_open)
        self._metrics.unstored_intervals.set(self._meter.unstored)
        self._metrics.dropped_intervals.set(self._meter.dropped)
        self._send(due)

    def _say_what_came(self) -> None:
        if self._dialer is None or not self._dialer.is_up or self._dialer.protocol < RECENT_PROTOCOL:
            return
        recent = self._meter.recent()
        if recent.lines or self._has_told_recent:
            self._has_told_recent = bool(recent.lines)
            self._send([recent])

    def _say_who_waits(self) -> None:
        self._send([Waiting(tuple(WaitingLine(*kind, n) for kind, n in self._waiting.items()))])

    def _send(self, messages: Sequence[ToDemandDesk]) -> None:
        if self._dialer is None or not self._dialer.is_up:
            return
        try:
            for message in messages:
                self._dialer.send(message)
        except ChannelError as error:
            _log.warning("the control plane cannot be told what load comes: %s", error)
