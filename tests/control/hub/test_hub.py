"""The hub on its socket: who is spoken to, what is told when, and what a peer cannot do to it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import ExecutorReport, NodeReport
from agents.messages.to_node import ToNode, Work
from control.access.secret import Secret
from control.db.errors import DatabaseUnavailableError
from control.hub.board import Board
from control.hub.hub import Hub
from control.lifecycle.state import InstanceState
from templates_lib.values.placement import ONLY
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Recorded
from tests.control.hub.boards import LOST_AFTER_S, deployed, nodes, run_of, says, scheduler
from tests.control.lifecycle.worlds import START

ANYWHERE = "tcp://127.0.0.1:0"


class Keys:
    """Who has registered, by a list in place of rows; a database that is away where that is None."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known: dict[str, str] | None = known

    def register(self, token: Secret, public_key: str, now: datetime) -> str:
        raise NotImplementedError

    def living(self) -> dict[str, str]:
        if self.known is None:
            raise DatabaseUnavailableError("the database does not answer")
        return self.known


class Node(Recorded):
    """A node's end: what it was told."""

    def __init__(self, address: Address, keys: KeyPair) -> None:
        super().__init__()
        self.told: list[Work] = []
        self.downs: list[str] = []
        self.dialer: Dialer[ToNode] = Dialer(address, keys, "node", ToNode, self, FAST)

    def up(self) -> None:
        self.note()

    def received(self, message: Work) -> None:
        self.told.append(message)
        self.note()

    def down(self, reason: str) -> None:
        self.downs.append(reason)
        self.note()


@dataclass
class Site:
    state: InstanceState = InstanceState.LOADING
    control: KeyPair = field(default_factory=KeyPair.generate)
    pairs: dict[str, KeyPair] = field(default_factory=lambda: {name: KeyPair.generate() for name in nodes("i1")})
    opened: list[Any] = field(default_factory=list)

    async def __aenter__(self) -> "Site":
        known = {pair.public: name for name, pair in self.pairs.items()}
        self.keys = Keys(known)
        self.board = Board({}, LOST_AFTER_S, 0.0)
        self.board.deploy([deployed("i1", self.state)])
        self.hub = Hub(ANYWHERE, ANYWHERE, self.control, self.keys, known, self.board, lambda: START)
        self.opened.append(self.hub)
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in reversed(self.opened):
            each.close()

    def dial(self, keys: KeyPair) -> Node:
        node = Node(Address(self.hub.endpoint, self.control.public), keys)
        self.opened.append(node.dialer)
        return node

    async def node(self, name: str) -> Node:
        node = self.dial(self.pairs[name])
        await self.until(lambda: node.dialer.is_up)
        return node

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.01)


def play(scenario: Callable[[Site], Awaitable[None]], state: InstanceState = InstanceState.LOADING) -> None:
    async def main() -> None:
        async with Site(state) as site:
            await scenario(site)

    asyncio.run(main())


FIRST, SECOND, LAST = nodes("i1")


def test_a_node_is_told_when_it_joins_and_again_only_when_that_has_changed() -> None:
    async def scenario(site: Site) -> None:
        first, last = await site.node(FIRST), await site.node(LAST)
        await first.until(lambda: first.told)
        await last.until(lambda: last.told)
        assert run_of(first.told[0]).scheduler is not None
        assert (last.told[0].instance, run_of(last.told[0]).stage) == ("i1", None)
        first.dialer.send(says("i1", state=SchedulerState.LOADING))
        await site.until(lambda: site.board.scheduler("i1"))
        for _ in range(3):
            site.hub.tell()
        await last.until(lambda: len(last.told) == 2)
        first.dialer.send(says("i1", state=SchedulerState.READY))
        await site.until(lambda: site.board.events(1.0))
        site.board.deploy([deployed("i1", InstanceState.DRAINING)])
        site.hub.tell()
        await last.until(lambda: last.told[-1].drain)
        assert [(run_of(work).stage is not None, work.drain) for work in last.told] == [
            (False, False),
            (True, False),
            (True, True),
        ]

    play(scenario)


def test_a_node_that_dials_again_is_told_again() -> None:
    async def scenario(site: Site) -> None:
        first = await site.node(FIRST)
        await first.until(lambda: first.told)
        first.dialer.close()
        again = await site.node(FIRST)
        await again.until(lambda: again.told)
        assert again.told == first.told[:1]

    play(scenario, InstanceState.READY)


def test_a_stranger_is_not_let_in_until_it_has_registered() -> None:
    async def scenario(site: Site) -> None:
        stranger = KeyPair.generate()
        refused = site.dial(stranger)
        await site.until(lambda: refused.dialer.refusal)
        assert "does not know our key" in str(refused.dialer.refusal)
        assert site.board.loads() == {}
        site.keys.known = {stranger.public: FIRST}
        await site.hub.refresh()
        await site.until(lambda: refused.dialer.is_up)
        assert set(site.board.loads()) == {FIRST}

    play(scenario)


def test_a_node_that_is_gone_from_the_record_is_spoken_to_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(site: Site) -> None:
        first, last = await site.node(FIRST), await site.node(LAST)
        site.keys.known = {site.pairs[LAST].public: LAST}
        await site.hub.refresh()
        await site.until(lambda: set(site.board.loads()) == {LAST})
        assert last.dialer.is_up
        await first.until(lambda: first.downs)
        del caplog.records[:]
        for _ in range(100):
            await site.hub.refresh()
        assert len(caplog.records) < 20, "it asks again, and not without a pause"

    play(scenario)


def test_while_the_database_is_away_those_who_are_known_stay_known() -> None:
    async def scenario(site: Site) -> None:
        first = await site.node(FIRST)
        site.keys.known = None
        await site.hub.refresh()
        last = await site.node(LAST)
        assert set(site.board.loads()) == {FIRST, LAST}
        assert (first.downs, last.downs) == ([], [])

    play(scenario)


@pytest.mark.parametrize(
    "message",
    [
        Work("i1"),
        NodeReport("i1", (ExecutorReport(ONLY, replace(scheduler("i1"), endpoint="tcp://nowhere")),)),
        NodeReport("i1", failure="x" * 5000),
    ],
    ids=["not for it", "an endpoint that is none", "too much"],
)
def test_what_breaks_a_bound_is_refused_and_counts_for_nothing(message: msgspec.Struct) -> None:
    async def scenario(site: Site) -> None:
        first, last = await site.node(FIRST), await site.node(LAST)
        first.dialer.send(message)
        await first.until(lambda: first.downs)
        assert "malformed" in first.downs[0]
        assert site.board.scheduler("i1") is None
        assert site.board.events(1.0) == []
        await site.until(lambda: first.dialer.is_up)
        first.dialer.send(says("i1", state=SchedulerState.READY))
        await site.until(lambda: site.board.scheduler("i1"))
        assert last.downs == []

    play(scenario)


def test_an_address_that_is_taken_is_an_error_and_nothing_stays_open() -> None:
    async def scenario(site: Site) -> None:
        with pytest.raises(OSError, match="in use"):
            Hub(site.hub.endpoint, ANYWHERE, site.control, site.keys, {}, site.board, lambda: START)
        with pytest.raises(OSError, match="in use"):
            Hub(ANYWHERE, site.hub.registry_endpoint, site.control, site.keys, {}, site.board, lambda: START)
        site.hub.close()
        site.hub.close()
        bound = site.hub.endpoint, site.hub.registry_endpoint
        again = Hub(*bound, site.control, site.keys, {}, site.board, lambda: START)
        again.close()

    play(scenario)
