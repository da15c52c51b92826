"""Several gateways before the same instances, and instances that say what is not so."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from agents.channels.peer import Peer
from agents.echo.scheduler import EchoScheduler, EchoSettings
from agents.messages.to_gateway import Failure, SchedulerState, Status
from agents.messages.to_scheduler import Generate
from control.gateway.call import Call
from tests.control.gateway.echo_fleet import EchoFleet, echo_fleet, ended, slack_model, whole
from tests.control.gateway.test_slack_queue import assert_whole, nothing_waits, one_by_one

ENOUGH_S = 3600.0


class Watched(EchoScheduler):
    """An echo that notes how many requests ever waited in it, and may say any number of places."""

    most_waiting = 0
    said: int | None = None

    @property
    def status(self) -> Status:
        true = super().status
        return true if self.said is None else msgspec.structs.replace(true, places=self.said)

    def submit(self, gateway: Peer, request: Generate) -> None:
        super().submit(gateway, request)
        self.most_waiting = max(self.most_waiting, len(self._waiting) + len(self._running))


class Watching(EchoFleet):
    scheduler = Watched


def started(fleet: EchoFleet, dispatcher: int, count: int, tokens: int = 8) -> list[Call]:
    calls = [fleet.call(tokens) for _ in range(count)]
    for call in calls:
        fleet.dispatchers[dispatcher].start(call)
    return calls


def test_gateways_share_the_places_of_instances_and_none_waits_for_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = EchoSettings(max_running=4, step_s=0.01, tokens_per_step=4)
        with echo_fleet(tmp_path, Watching, one=settings, two=settings) as fleet:
            model = slack_model(whole("one", 0.0), whole("two", 0.0))
            for _ in range(3):
                fleet.publish(fleet.dispatcher(), model)
            for dispatcher in fleet.dispatchers:
                await fleet.usable(dispatcher)
            first = [started(fleet, number, 1) for number in range(3)]  # instances get to know who there is
            for (call,) in first:
                assert_whole(await ended(call))
            many, few, some = (started(fleet, number, count) for number, count in enumerate((400, 20, 60)))
            for call in few:
                assert_whole(await ended(call))
            assert sum(call.end is None for call in many) > 100  # whoever has few did not wait for who has many
            for call in (*many, *some):
                assert_whole(await ended(call))
            assert all(nothing_waits(dispatcher) for dispatcher in fleet.dispatchers)
            for scheduler in fleet.schedulers.values():
                assert isinstance(scheduler, Watched)
                # A place that was taken back may have been used just then, on a busy machine by each of the three.
                assert scheduler.most_waiting <= 3 * 4

    asyncio.run(scenario())


def test_an_instance_that_says_too_many_places_gets_a_bounded_number_of_calls(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, Watching, liar=one_by_one(ENOUGH_S), honest=one_by_one(0.001)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.schedulers["liar"].said = 1 << 40  # type: ignore[attr-defined]
            fleet.publish(dispatcher, slack_model(whole("liar", 0.0, 0.1), whole("honest", 0.001)))
            await fleet.usable(dispatcher)
            calls = started(fleet, 0, 300, 100)
            async with asyncio.timeout(60):
                while sum(call.end is not None for call in calls) < 230:
                    await asyncio.sleep(0.001)
            assert len(fleet.schedulers["liar"].calls) <= 70
            fleet.schedulers["liar"].close()
            for call in calls:
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_an_instance_that_offers_places_and_refuses_whoever_comes_starves_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, Watching, liar=EchoSettings(), honest=one_by_one(0.001)) as fleet:
            dispatchers, liar = [fleet.dispatcher(), fleet.dispatcher()], fleet.schedulers["liar"]
            liar.said = 64  # type: ignore[attr-defined]
            liar.fail_next.extend([Failure.OVERLOADED] * 100_000)
            for dispatcher in dispatchers:  # the liar is the cheaper and the faster by the table
                fleet.publish(dispatcher, slack_model(whole("liar", 0.0, 0.1), whole("honest", 0.001)))
                await fleet.usable(dispatcher)
            calls = [call for number in range(2) for call in started(fleet, number, 100)]
            async with asyncio.timeout(60):
                for call in calls:
                    assert_whole(await ended(call))
            assert len(fleet.schedulers["honest"].calls) == len(calls)
            assert 0 < len(liar.calls) <= 10 * len(calls)
            assert all(nothing_waits(dispatcher) for dispatcher in dispatchers)

    asyncio.run(scenario())


@pytest.mark.parametrize("said", [0, -1, -(1 << 40)])
def test_an_instance_that_never_says_any_places_leaves_calls_to_the_others(tmp_path: Path, said: int) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, Watching, mute=EchoSettings(), honest=one_by_one(0.001)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.schedulers["mute"].said = said  # type: ignore[attr-defined]
            fleet.publish(dispatcher, slack_model(whole("mute", 0.0), whole("honest", 0.001)))
            await fleet.usable(dispatcher)
            for call in started(fleet, 0, 50):
                assert_whole(await ended(call))
            assert not fleet.schedulers["mute"].calls

    asyncio.run(scenario())


def test_schedulers_and_gateways_of_the_release_before_serve_beside_new_ones(tmp_path: Path) -> None:
    def former(_gateway: Peer, status: Status) -> Status:
        """What such a scheduler says."""
        return msgspec.structs.replace(status, places=None, is_shared=False)

    async def scenario() -> None:
        settings = EchoSettings(max_running=2, step_s=0.002, max_waiting=8)
        with echo_fleet(tmp_path, old=settings, new=settings) as fleet:
            fleet.schedulers["old"]._gateways._status_for = former  # type: ignore[method-assign]
            by_slack = slack_model(whole("old", 0.0), whole("new", 0.0))
            for model in (by_slack, replace(by_slack, policy="wrr-v1")):  # the latter neither asks nor reads places
                fleet.publish(fleet.dispatcher(), model)
            for dispatcher in fleet.dispatchers:
                await fleet.usable(dispatcher)
            calls = [*started(fleet, 0, 80), *started(fleet, 1, 80)]
            for call in calls:
                assert_whole(await ended(call))
            assert all(nothing_waits(dispatcher) for dispatcher in fleet.dispatchers)

    asyncio.run(scenario())


def test_each_gateway_is_told_what_the_others_have_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=one_by_one(ENOUGH_S)) as fleet:
            model = replace(slack_model(whole("one", 0.0)), policy="wrr-v1")
            for _ in range(3):
                fleet.publish(fleet.dispatcher(), model)
            for dispatcher in fleet.dispatchers:
                await fleet.usable(dispatcher)

            async def told(*units: int) -> None:
                links = [dispatcher._links["one"] for dispatcher in fleet.dispatchers]
                async with asyncio.timeout(60):
                    while tuple(link.status and link.status.others_units for link in links) != units:
                        await asyncio.sleep(0.001)

            await told(0, 0, 0)
            many = started(fleet, 0, 4)
            of_many = sum(len(call.asked.prompt) for call in many[1:])  # the first has its first token
            await told(0, of_many, of_many)
            few = started(fleet, 1, 1)
            of_few = len(few[0].asked.prompt)
            await told(of_few, of_many, of_many + of_few)
            for call in many:
                fleet.dispatchers[0].cancel(call)
            await told(of_few, 0, of_few)

    asyncio.run(scenario())


def test_a_gateway_of_the_release_before_reads_a_status_as_it_did() -> None:
    class FormerStatus(msgspec.Struct, frozen=True, array_like=True, tag="status"):
        state: SchedulerState
        running: int
        waiting: int
        kv_blocks: int
        kv_blocks_free: int
        hand_off: str | None = None
        room: int | None = None

    status = Status(SchedulerState.READY, 1, 2, 30, 4, room=5, places=6, is_shared=True)
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=FormerStatus)
    assert read == FormerStatus(SchedulerState.READY, 1, 2, 30, 4, room=5)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(read), type=Status).places is None
