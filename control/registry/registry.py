"""The control plane's end of the agents' key exchange (`control.db.agent_keys` says what it is).

Anybody may connect, since nobody is known yet; a connection is encrypted to the registry's own key, which a node is
started with, so that a token is read by nobody else. All that can be done here is to spend a token.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol

from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.channels.peer import Peer
from agents.channels.settings import ChannelSettings
from agents.messages.to_newcomer import Registered, RegistrationRefused
from agents.messages.to_registry import Register, ToRegistry
from control.access.secret import Secret
from control.db.errors import DatabaseUnavailableError, RegistrationRefusedError

_log = logging.getLogger(__name__)

SETTINGS = ChannelSettings(max_message_bytes=4096, queue_messages=16)
"""Strangers get no more memory than a token needs."""


class RegistrationKeys(Protocol):
    """`control.db.agent_keys.PostgresAgentKeys`."""

    def register(self, token: Secret, public_key: str, now: datetime) -> str: ...


class Registry:
    """Make it on a running loop; it listens until closed."""

    def __init__(
        self,
        bind: str,
        keys: KeyPair,
        agent_keys: RegistrationKeys,
        clock: Callable[[], datetime],
        registered: Callable[[str], Awaitable[None]],
        settings: ChannelSettings = SETTINGS,
    ) -> None:
        """`bind`: tcp://interface:port, port 0 for any. `registered` is awaited with the name of a node whose key is
        on record, before the node is told, and more than once where a reply was lost.

        Raises OSError when the address is taken."""
        self._agent_keys = agent_keys
        self._clock = clock
        self._registered = registered
        self._under_way: dict[bytes, asyncio.Task[None]] = {}
        self._listener: Listener[ToRegistry] = Listener(bind, keys, None, ToRegistry, self, settings)

    @property
    def endpoint(self) -> str:
        return self._listener.endpoint

    def joined(self, peer: Peer) -> None:
        """A key alone is nothing yet."""

    def received(self, peer: Peer, message: Any) -> None:
        if peer.connection in self._under_way:
            # One at a time, so that a stranger cannot keep the database busy.
            self._listener.drop(peer, "it does not wait for its answer")
        elif isinstance(message, Register):
            work = self._register(peer, Secret(message.token))
            task = asyncio.get_running_loop().create_task(work)
            self._under_way[peer.connection] = task
            task.add_done_callback(lambda _: self._under_way.pop(peer.connection))

    def left(self, peer: Peer, reason: str) -> None:
        """Do nothing: nothing is held for a peer."""

    def close(self) -> None:
        self._listener.close()

    async def _register(self, peer: Peer, token: Secret) -> None:
        # Its name is its key, of which it has just proved the secret half.
        try:
            node = await asyncio.to_thread(self._agent_keys.register, token, peer.name, self._clock())
        except RegistrationRefusedError as error:
            _log.warning("refused to register key %s: %s", peer.name, error)
            self._answer(peer, RegistrationRefused(str(error)))
        except DatabaseUnavailableError as error:
            _log.error("cannot register key %s now: %s", peer.name, error)
            # It says hello again soon, and then registers again.
            self._listener.drop(peer, "the database does not answer")
        else:
            _log.info("node %s has registered key %s", node, peer.name)
            await self._registered(node)
            self._answer(peer, Registered(node))

    def _answer(self, peer: Peer, message: Registered | RegistrationRefused) -> None:
        try:
            self._listener.send(peer, message)
        except ChannelError as error:
            _log.info("key %s has gone before its answer: %s", peer.name, error)
