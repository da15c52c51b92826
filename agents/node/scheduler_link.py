"""The agent's line to the scheduler that runs on its node: how it is, and that it shall drain."""

import contextlib
from collections.abc import Callable

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.messages.to_gateway import Stats, Status, ToGateway
from agents.messages.to_scheduler import AskStats, Drain


class SchedulerLink:
    """Make it on a running loop. `changed` is called whenever the scheduler says how it is."""

    def __init__(
        self, address: Address, keys: KeyPair, changed: Callable[[], None], settings: ChannelSettings | None = None
    ) -> None:
        self.status: Status | None = None
        self.stats: Stats | None = None
        self._changed = changed
        self._drain = False
        self._dialer: Dialer[ToGateway] = Dialer(address, keys, "agent", ToGateway, self, settings)

    def drain(self) -> None:
        """Tell the scheduler to drain, once now, and again whenever it comes back."""
        if not self._drain:
            self._drain = True
            self._tell()

    def ask(self) -> None:
        """Ask the scheduler for its counters: `stats` follows."""
        if self._dialer.is_up:
            with contextlib.suppress(ChannelError):
                self._dialer.send(AskStats())

    def close(self) -> None:
        self._dialer.close()

    def up(self) -> None:
        if self._drain:
            self._tell()

    def received(self, message: ToGateway) -> None:
        if isinstance(message, Status):
            self.status = message
            self._changed()
        elif isinstance(message, Stats):
            self.stats = message

    def down(self, reason: str) -> None:
        """Do nothing: its process has ended, or hangs. The agent notices the one, the stage workers the other."""

    def _tell(self) -> None:
        try:
            self._dialer.send(Drain())
        except ChannelError:
            return  # `up` follows
