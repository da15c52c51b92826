"""What the scheduler tells stage workers once all of them have loaded, and at the end."""

import asyncio
from contextlib import ExitStack, closing

import pytest
from msgspec.structs import replace

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_stage import Connect, Leave, ToStage
from agents.scheduler.stage_gang import StageGang
from agents.transfer.rendezvous import join
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Seen
from tests.agents.scheduler.test_stage_check import GOOD, LAYOUT, WORKERS


class Events:
    def stages_lost(self, reason: str) -> None:
        raise AssertionError(reason)


class Made:
    """A gang, and the keys of its workers."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._own = KeyPair.generate()
        named = {KeyPair.generate(): name for name in WORKERS.nodes}
        self.keys = tuple(named)
        names = {pair.public: name for pair, name in named.items()}
        self.gang = StageGang("tcp://127.0.0.1:0", "127.0.0.1", self._own, names, LAYOUT, Events(), FAST)  # type: ignore[arg-type]
        opened.enter_context(closing(self.gang))

    async def dial(self, keys: KeyPair) -> tuple[Dialer[ToStage], Seen]:
        seen, address = Seen(), Address(self.gang.endpoint, self._own.public)
        dialer: Dialer[ToStage] = Dialer(address, keys, "stage", ToStage, seen, FAST)  # type: ignore[arg-type]
        self._opened.enter_context(closing(dialer))
        await dialer.wait_up(PATIENCE_S)
        return dialer, seen


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(("cpu", "cpu", "cpu"), False), (("cuda", "cpu", "cpu"), False), (("cuda", "cpu", "cuda"), True)],
)
def test_edges_try_nccl_where_two_nodes_are_on_gpus(devices: tuple[str, ...], expected: bool) -> None:
    async def scenario(opened: ExitStack) -> None:
        made = Made(opened)
        heard = []
        for pair, loaded, device in zip(made.keys, GOOD.values(), devices, strict=True):
            dialer, seen = await made.dial(pair)
            dialer.send(replace(loaded, device=device))
            heard.append(seen)
        for seen in heard:
            await seen.until(lambda seen=seen: seen.messages)
            (told,) = seen.messages
            assert isinstance(told, Connect)
            assert told.tries_nccl is expected

    with ExitStack() as opened:
        asyncio.run(scenario(opened))


@pytest.mark.parametrize("offered", [("10.1.2.3", 4567), None], ids=["first worker", "release before"])
def test_workers_meet_where_the_first_of_them_says_or_at_the_scheduler(offered: tuple[str, int] | None) -> None:
    async def scenario(opened: ExitStack) -> None:
        made = Made(opened)
        heard = []
        for number, (pair, loaded) in enumerate(zip(made.keys, GOOD.values(), strict=True)):
            dialer, seen = await made.dial(pair)
            dialer.send(replace(loaded, rendezvous=None if number else offered))
            heard.append(seen)
        for seen in heard:
            await seen.until(lambda seen=seen: seen.messages)
        places = {(told.rendezvous_host, told.rendezvous_port) for seen in heard for told in seen.messages}
        assert places == {made.gang.rendezvous}
        if offered is None:
            join(*made.gang.rendezvous, PATIENCE_S).set("anybody", "there")
        else:
            assert places == {offered}

    with ExitStack() as opened:
        asyncio.run(scenario(opened))


def test_whoever_is_there_hears_why_the_instance_ends_loaded_or_not_and_so_does_who_comes_later() -> None:
    async def scenario(opened: ExitStack) -> None:
        made = Made(opened)
        one, another, last = made.keys
        loaded, loaded_heard = await made.dial(one)
        loaded.send(next(iter(GOOD.values())))
        _, loading_heard = await made.dial(another)
        made.gang.end("the third is out of memory")
        _, late_heard = await made.dial(last)
        for heard in (loaded_heard, loading_heard, late_heard):
            await heard.until(lambda heard=heard: heard.messages)
            assert heard.messages == [Leave("the third is out of memory")]

    with ExitStack() as opened:
        asyncio.run(scenario(opened))


@pytest.mark.parametrize("able", [(True, True, True), (True, False, True)])
def test_kv_cache_streams_and_drafts_are_verified_where_all_workers_can(able: tuple[bool, ...]) -> None:
    """One of the release before says nothing of either."""

    async def scenario(opened: ExitStack) -> None:
        made = Made(opened)
        heard = []
        assert not made.gang.verifies_drafts, "nobody has loaded"
        for pair, loaded, is_able in zip(made.keys, GOOD.values(), able, strict=True):
            dialer, seen = await made.dial(pair)
            dialer.send(replace(loaded, streams_kv=True, verifies_drafts=True) if is_able else loaded)
            heard.append(seen)
        for seen in heard:
            await seen.until(lambda seen=seen: seen.messages)
        assert made.gang.streams_kv is made.gang.verifies_drafts is all(able)

    with ExitStack() as opened:
        asyncio.run(scenario(opened))
