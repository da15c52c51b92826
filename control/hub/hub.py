"""The hub as it runs: registered nodes on one side, the board on the other."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.to_hub import ReportOfOne, ToHub
from agents.messages.to_node import Work, WorkOfOne
from control.access.secret import Secret
from control.db.errors import DatabaseUnavailableError
from control.hub.board import Board
from control.registry.registry import Registry

_log = logging.getLogger(__name__)

CHANNEL = ChannelSettings(max_message_bytes=1 << 20, queue_messages=256, lost_after_s=15.0)
"""As patient as the agents are: a node may compute on the only processor it has a share of."""


class AgentKeys(Protocol):
    """`control.db.agent_keys.PostgresAgentKeys`."""

    def register(self, token: Secret, public_key: str, now: datetime) -> str: ...

    def living(self) -> dict[str, str]: ...


class Hub:
    """Make it on a running loop, with what is deployed on the board; it listens until closed."""

    def __init__(
        self,
        bind: str,
        bind_registry: str,
        keys: KeyPair,
        agent_keys: AgentKeys,
        known: dict[str, str],
        board: Board,
        clock: Callable[[], datetime],
    ) -> None:
        """`known`: public key → node, as `agent_keys.living` has just said. Raises OSError: an address is taken."""
        self._board = board
        self._agent_keys = agent_keys
        self._refreshing = asyncio.Lock()
        self._told: dict[bytes, Work | WorkOfOne] = {}
        board.know(known)
        self._registry = Registry(bind_registry, keys, agent_keys, clock, self._registered)
        try:
            self._listener: Listener[ToHub] = Listener(bind, keys, known, ToHub, self, CHANNEL)
        except OSError:
            self._registry.close()
            raise
        self.endpoint, self.registry_endpoint = self._listener.endpoint, self._registry.endpoint

    def tell(self) -> None:
        """Send every node its work, where that has changed."""
        for peer in self._listener.peers:
            self._tell(peer)

    def close(self) -> None:
        self._registry.close()
        self._listener.close()

    def joined(self, peer: Peer) -> None:
        self._board.joined(peer.name, time.monotonic(), peer.protocol)
        self._tell(peer)

    def received(self, peer: Peer, message: ToHub) -> None:
        self._board.reported(peer.name, message.report if isinstance(message, ReportOfOne) else message)

    def left(self, peer: Peer, _reason: str) -> None:
        self._told.pop(peer.connection, None)
        if all(other.name != peer.name for other in self._listener.peers):
            self._board.left(peer.name, time.monotonic())

    async def refresh(self) -> None:
        """Read again who has registered: nodes that are gone are not spoken to any more."""
        async with self._refreshing:  # in turn: what was read earlier must not be applied later
            try:
                living = await asyncio.to_thread(self._agent_keys.living)
            except DatabaseUnavailableError as error:
                _log.warning("cannot read who has registered: %s", error)
                return
            self._board.know(living)
            self._listener.allow(living)

    async def _registered(self, _node: str) -> None:
        await self.refresh()

    def _tell(self, peer: Peer) -> None:
        asked = self._board.work(peer.name)
        work = asked.of_one if asked is not None and peer.protocol < 2 else asked
        if work is None or self._told.get(peer.connection) == work:
            return
        try:
            self._listener.send(peer, work)
        except ChannelError as error:
            self._listener.drop(peer, str(error))
        else:
            self._told[peer.connection] = work
