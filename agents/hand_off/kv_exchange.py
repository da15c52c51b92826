"""All KV cache that comes to, and goes from, one stage worker."""

from collections.abc import Callable

import msgspec

from agents.hand_off.kv_inbox import KvInbox
from agents.hand_off.kv_receiver import KvReceiver
from agents.hand_off.kv_sender import KvSender
from agents.hand_off.settings import HandOffSettings
from agents.hand_off.watched_kv import WatchedKv
from agents.messages.to_stage import CloseKvLink, OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvArrived


class KvExchange:
    """Its links have threads of their own, so that neither steps nor the channel to the scheduler wait for them."""

    def __init__(self, engine: WatchedKv, settings: HandOffSettings, report: Callable[[msgspec.Struct], None]) -> None:
        """`report` is called on the links' threads, with messages for the scheduler."""
        self.inbox = KvInbox(engine, lambda run, moved_bytes: report(KvArrived(run, moved_bytes)))
        self._engine = engine
        self._settings = settings
        self._report = report
        self._links: dict[str, KvSender | KvReceiver] = {}

    def forget(self, run: int) -> None:
        """The run is freed: neither does its KV cache come, nor go."""
        self.inbox.forget(run)
        for link in list(self._links.values()):
            if isinstance(link, KvSender):
                link.forget(run)

    def obey(self, order: OpenKvLink | CloseKvLink | SendKv) -> None:
        """Raises ValueError for an order that does not fit the link."""
        if isinstance(order, CloseKvLink):
            link = self._links.pop(order.link, None)
            if link is not None:
                link.close()
            return
        sends = isinstance(order, SendKv) or order.sends
        if (link := self._links.get(order.link)) is None:
            link = self._links[order.link] = (
                KvSender(order.link, self._engine, self._settings, self._report)
                if sends
                else KvReceiver(order.link, self._engine, self.inbox, self._settings)
            )
        if isinstance(order, OpenKvLink):
            link.open(order)
        elif isinstance(link, KvSender):
            link.send(order)
        else:
            raise ValueError(f"KV cache comes over {order.link}, and does not go")
