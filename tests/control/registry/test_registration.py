"""A new node turns its token into a registered key, over real sockets and a real database."""

import asyncio
import logging
from datetime import datetime
from threading import Event
from typing import Any

import pytest

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.errors import PeerLostError, RefusedError
from agents.channels.keys import KeyPair
from agents.channels.listener import Listener
from agents.messages.to_newcomer import ToNewcomer
from agents.messages.to_registry import Register
from agents.messages.to_scheduler import ToScheduler
from agents.registration import register
from control.access.secret import Secret, new_secret
from control.db.agent_keys import PostgresAgentKeys
from control.db.database import Database
from control.db.errors import DatabaseUnavailableError
from control.lifecycle.event import EventKind
from control.registry.registry import RegistrationKeys, Registry
from tests.agents.channels.channel_ends import FAST, Heard, Seen
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.executor.fleets import START, Fleet, fleet, offer
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import driven

PATIENCE_S = 120


class Open:
    """A registry that is open during a `with`."""

    def __init__(self, agent_keys: RegistrationKeys) -> None:
        self.server = KeyPair.generate()
        self.registered: list[str] = []
        self._registry = Registry("tcp://127.0.0.1:0", self.server, agent_keys, lambda: NOON, self._hear, FAST)
        self.address = Address(self._registry.endpoint, self.server.public)

    def __enter__(self) -> "Open":
        return self

    def __exit__(self, *_: object) -> None:
        self._registry.close()

    async def _hear(self, node: str) -> None:
        self.registered.append(node)

    async def register(self, token: Secret, keys: KeyPair, **changed: Any) -> str:
        options = {"registry": self.address, "timeout_s": PATIENCE_S, "settings": FAST} | changed
        return await register(token=token.reveal(), keys=keys, **options)


def rented(database: Database, places: int) -> tuple[Fleet, list[tuple[str, Secret]]]:
    """Nodes, each with the token that it was started with."""
    cloud = FakeCloud("fake", {"small": places})
    medley, instance = fleet(database, cloud), driven(database, EventKind.PROVISION)
    names = [medley.executor.rent(instance.id, place, offer(), START).name for place in range(places)]
    return medley, [(name, cloud.request(name).secrets["MEDLEY_BOOTSTRAP_TOKEN"]) for name in names]


def test_nodes_register_and_are_known_by_their_keys_until_they_are_gone(database: Database) -> None:
    medley, nodes = rented(database, 2)
    keys = PostgresAgentKeys(database)

    async def scenario() -> None:
        pairs = [KeyPair.generate() for _ in nodes]
        with Open(keys) as registry:
            names = await asyncio.gather(
                *(registry.register(token, pair) for (_, token), pair in zip(nodes, pairs, strict=True))
            )
            assert names == [name for name, _ in nodes]
            assert sorted(registry.registered) == names
        assert keys.living() == {pair.public: name for pair, name in zip(pairs, names, strict=True)}
        await speak_and_be_dropped(medley, keys, names, pairs)

    asyncio.run(scenario())


async def speak_and_be_dropped(medley: Fleet, keys: PostgresAgentKeys, names: list[str], pairs: list[KeyPair]) -> None:
    server, heard = KeyPair.generate(), Heard()
    listener: Listener[ToScheduler] = Listener("tcp://127.0.0.1:0", server, keys.living(), ToScheduler, heard, FAST)
    address = Address(listener.endpoint, server.public)
    dialers = [Dialer(address, pair, "agent", ToScheduler, Seen(), FAST) for pair in pairs]
    for dialer in dialers:
        await dialer.wait_up(PATIENCE_S)
    assert {peer.name for peer in heard.peers} == set(names)
    await asyncio.to_thread(medley.executor.give_back, names[0], "fake")
    listener.allow(keys.living())
    assert [peer.name for peer in listener.peers] == names[1:]
    for end in (*dialers, listener):
        end.close()


def test_a_token_that_nobody_was_given_is_refused_and_told_to_nobody(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = new_secret()

    async def scenario() -> None:
        with Open(PostgresAgentKeys(database)) as registry:
            with pytest.raises(RefusedError, match="nobody was given"):
                await registry.register(token, KeyPair.generate())
            assert registry.registered == []

    asyncio.run(scenario())
    assert "refused to register key" in caplog.text
    assert token.reveal() not in caplog.text
    assert token.reveal() not in repr(Register(token.reveal()))


def test_a_stolen_token_is_worth_nothing_once_it_is_spent(database: Database) -> None:
    _, ((name, token),) = rented(database, 1)

    async def scenario() -> None:
        owner, thief = KeyPair.generate(), KeyPair.generate()
        with Open(PostgresAgentKeys(database)) as registry:
            assert await registry.register(token, owner) == name
            with pytest.raises(RefusedError, match="has registered already"):
                await registry.register(token, thief)
            assert await registry.register(token, owner) == name

    asyncio.run(scenario())


def test_a_registry_with_another_key_is_not_told_the_token(database: Database) -> None:
    async def scenario() -> None:
        with Open(Recorded(PostgresAgentKeys(database), 0)) as registry:
            false = Address(registry.address.endpoint, KeyPair.generate().public)
            with pytest.raises((RefusedError, PeerLostError)):
                await registry.register(new_secret(), KeyPair.generate(), registry=false, timeout_s=1)
            assert registry.registered == []

    asyncio.run(scenario())


def test_a_node_tries_again_while_the_database_is_away(database: Database) -> None:
    _, ((name, token),) = rented(database, 1)
    keys = Recorded(PostgresAgentKeys(database), failures=2)

    async def scenario() -> None:
        with Open(keys) as registry:
            assert await registry.register(token, KeyPair.generate()) == name

    asyncio.run(scenario())
    assert keys.calls == 3


def test_a_registry_that_is_not_there_is_waited_for_so_long(database: Database) -> None:
    async def scenario() -> None:
        nobody = Address("tcp://127.0.0.1:1", KeyPair.generate().public)
        with pytest.raises(PeerLostError, match=r"127\.0\.0\.1:1"):
            await register(nobody, "token", KeyPair.generate(), 0.2, FAST)

    asyncio.run(scenario())


def test_a_stranger_that_does_not_wait_for_its_answer_is_dropped(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Recorded(PostgresAgentKeys(database), failures=0)

    async def scenario() -> None:
        with Open(keys) as registry:
            seen = Seen()
            dialer = Dialer(registry.address, KeyPair.generate(), "newcomer", ToNewcomer, seen, FAST)
            await dialer.wait_up(PATIENCE_S)
            keys.go_on.clear()
            for _ in range(50):
                dialer.send(Register("guess"))
            await seen.until(lambda: seen.downs)
            keys.go_on.set()
            dialer.close()

    asyncio.run(scenario())
    assert "it does not wait for its answer" in caplog.text
    assert keys.calls == 1


class Recorded:
    """The keys on record, behind a database that is away for the first calls."""

    def __init__(self, inner: PostgresAgentKeys, failures: int) -> None:
        self.calls = 0
        self.go_on = Event()
        self.go_on.set()
        self._inner = inner
        self._failures = failures

    def register(self, token: Secret, public_key: str, now: datetime) -> str:
        self.calls += 1
        self.go_on.wait(PATIENCE_S)
        if self.calls <= self._failures:
            raise DatabaseUnavailableError("the database does not answer")
        return self._inner.register(token, public_key, now)
