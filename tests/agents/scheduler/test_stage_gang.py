"""What the scheduler tells stage workers once all of them have loaded."""

import asyncio
from contextlib import ExitStack, closing

import pytest
from msgspec.structs import replace

from agents.channels.dialer import Address, Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_stage import Connect, ToStage
from agents.scheduler.stage_gang import StageGang
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Seen
from tests.agents.scheduler.test_stage_check import GOOD, LAYOUT, WORKERS


class Events:
    def stages_lost(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(("cpu", "cpu", "cpu"), False), (("cuda", "cpu", "cpu"), False), (("cuda", "cpu", "cuda"), True)],
)
def test_edges_try_nccl_where_two_nodes_are_on_gpus(devices: tuple[str, ...], expected: bool) -> None:
    async def scenario(opened: ExitStack) -> None:
        own, keys = KeyPair.generate(), {name: KeyPair.generate() for name in WORKERS.nodes}
        names = {pair.public: name for name, pair in keys.items()}
        gang = StageGang("tcp://127.0.0.1:0", "127.0.0.1", own, names, LAYOUT, Events(), FAST)  # type: ignore[arg-type]
        opened.enter_context(closing(gang))
        heard = [Seen() for _ in keys]
        for pair, seen, loaded, device in zip(keys.values(), heard, GOOD.values(), devices, strict=True):
            address = Address(gang.endpoint, own.public)
            dialer: Dialer[ToStage] = Dialer(address, pair, "stage", ToStage, seen, FAST)  # type: ignore[arg-type]
            opened.enter_context(closing(dialer))
            await dialer.wait_up(PATIENCE_S)
            dialer.send(replace(loaded, device=device))
        for seen in heard:
            await seen.until(lambda seen=seen: seen.messages)
            (told,) = seen.messages
            assert isinstance(told, Connect)
            assert told.tries_nccl is expected

    with ExitStack() as opened:
        asyncio.run(scenario(opened))
