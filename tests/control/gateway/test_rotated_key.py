"""A gateway that is given another key while it serves: no request is lost, and nobody waits for it."""

import asyncio
from pathlib import Path

from agents.channels.keys import KeyPair
from agents.echo.scheduler import EchoSettings
from bench.text_tables import text_model
from control.gateway.dispatcher import Dispatcher
from control.gateway.key_watch import watch_key
from tests.control.gateway.echo_fleet import EchoFleet, echo_fleet, ended, whole
from tests.control.gateway.test_slack_queue import assert_whole

SLOW = EchoSettings(step_s=0.002)


async def served(fleet: EchoFleet, dispatcher: Dispatcher, count: int = 6, tokens: int = 5) -> None:
    calls = [fleet.call(tokens) for _ in range(count)]
    for call in calls:
        dispatcher.start(call)
    for call in calls:
        assert_whole(await ended(call))
        assert call.losses == 0


def test_instances_know_it_by_the_new_key_once_they_let_it_in_and_by_the_old_one_until_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=SLOW, other=SLOW) as fleet:
            dispatcher, keys = fleet.dispatcher(), KeyPair.generate()
            fleet.publish(dispatcher, text_model("m", [whole("one", 0.01), whole("other", 0.01)]))
            await fleet.usable(dispatcher)
            before = dict(dispatcher._links)
            long = asyncio.create_task(served(fleet, dispatcher, 4, 300))
            dispatcher.take_keys(keys)
            await served(fleet, dispatcher)
            assert dispatcher._links == before, "nobody lets it in yet"
            fleet.allowed[keys.public] = "gateway-2"
            async with asyncio.timeout(60):
                while before.items() & dispatcher._links.items():
                    await served(fleet, dispatcher, 1)
            await long
            del fleet.allowed[fleet.keys.public]
            async with asyncio.timeout(60):
                while any(len(each._gateways._listener.peers) != 1 for each in fleet.schedulers.values()):
                    await served(fleet, dispatcher, 1)
            await served(fleet, dispatcher)
            names = {peer.name for each in fleet.schedulers.values() for peer in each._gateways._listener.peers}
            assert names == {"gateway-2"}

    asyncio.run(scenario())


def test_a_key_file_is_taken_up_when_it_is_whole(tmp_path: Path) -> None:
    path, first, second = tmp_path / "gateway.key", KeyPair.generate(), KeyPair.generate()
    taken: list[KeyPair] = []

    async def scenario() -> None:
        first.save(path)
        watch = asyncio.create_task(watch_key(path, first, taken.append, 0.001))
        try:
            path.write_text("{")
            path.unlink()
            new = tmp_path / "new"
            second.save(new)
            new.replace(path)
            async with asyncio.timeout(60):
                while not taken:
                    await asyncio.sleep(0.001)
        finally:
            watch.cancel()

    asyncio.run(scenario())
    assert taken == [second]
