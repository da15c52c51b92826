"""The links of a vLLM instance to others, which are in the process of its scheduler, however many processes compute."""

import logging
from collections.abc import Callable

import msgspec

from agents.hand_off.kv_exchange import KvExchange
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import CloseKvLink, OpenKvLink, SendKv
from agents.transfer.rendezvous import Rendezvous
from agents.vllm_engine.exchange import KvFacts
from agents.vllm_engine.host_kv import HostKv
from agents.vllm_engine.staged_kv import StagedKv

_log = logging.getLogger(__name__)


class KvWorker:
    """Links to other instances, and the KV caches on their way over them."""

    def __init__(self, interface: str, kv: KvFacts, report: Callable[[msgspec.Struct], None]) -> None:
        """`interface`: this node's address on the private network. `report` is called on the links' threads, with
        `KvArrived` and `KvLinkBroken`. Raises OSError when the interface is not of this machine."""
        self._rendezvous = Rendezvous(interface)
        self._staged = StagedKv(kv)
        self._exchange = KvExchange(self._staged, HandOffSettings(interface), report)

    @property
    def rendezvous(self) -> tuple[str, int]:
        """Host and port where ends of links find each other."""
        return self._rendezvous.address

    def obey(self, order: msgspec.Struct) -> None:
        if not isinstance(order, OpenKvLink | CloseKvLink | SendKv):
            raise TypeError(f"told to {type(order).__name__}, which is no matter of links")
        try:
            self._exchange.obey(order)
        except ValueError as error:
            _log.error("an order for a link is refused: %s", error)

    def reserve(self, run: int, tokens: int) -> None:
        """Make room for KV cache that comes. Raises EngineError where the host has no memory for it."""
        self._exchange.inbox.reserve(run, tokens)

    def put(self, run: int, kv: HostKv) -> None:
        """Keep KV cache that leaves."""
        self._staged.put(str(run), kv)

    def take(self, run: int) -> HostKv:
        """Return KV cache that has come, and forget it. Raises UnknownRequestError."""
        return self._staged.take(str(run))

    def forget(self, run: int) -> None:
        self._exchange.forget(run)
        self._staged.free(str(run))

    def close(self) -> None:
        self._rendezvous.close()
