"""A worker that asks its supervisor, over a real socket pair."""

import asyncio
import signal
import socket
from pathlib import Path

import msgspec
import pytest

from control.gateway.api_error import ApiError
from control.gateway.counts import Counts
from control.gateway.key_limits import KeyCharge, KeyLimits, holders_of
from control.gateway.published import AccessKey
from control.gateway.settings import GatewaySettings
from control.gateway.workers.messages import (
    Booked,
    GiveBack,
    Permit,
    Ping,
    Pong,
    Refusal,
    Serve,
    Settle,
    Take,
    ToSupervisor,
)
from control.gateway.workers.pipe import Pipe
from control.gateway.workers.supervisor import DECODER as SUPERVISORS_DECODER
from control.gateway.workers.worker import DECODER, SharedParts
from policies.admission import Charge

KEY = AccessKey("a", "00" * 32, "p", requests_per_minute=2, tokens_per_minute=100)
TAKEN = KeyCharge(tuple(who for who, _ in holders_of(KEY)), 30.0, ())
ORDER = Serve(0, "127.0.0.1", 0, "table", "key", GatewaySettings(), None)


async def ends() -> tuple[SharedParts, Pipe[ToSupervisor]]:
    """A worker's parts, and the supervisor's end."""
    one, other = socket.socketpair()
    parts = SharedParts(await Pipe.over(one, DECODER), ORDER, Counts.of_one())
    return parts, await Pipe.over(other, SUPERVISORS_DECODER)


def test_an_order_arrives_as_it_was_sent():
    order = msgspec.structs.replace(ORDER, settings=GatewaySettings(image_hosts=("example.org",)), tls=("a", "b"))
    assert DECODER.decode(msgspec.msgpack.encode(order)) == order
    assert Path(order.table).name == "table"


def test_a_key_is_counted_by_the_supervisor_and_one_without_limits_by_nobody():
    async def scenario() -> None:
        parts, supervisor = await ends()
        assert await parts.take(None, 10.0) is None
        assert await parts.take(AccessKey("free", "00" * 32), 10.0) is None
        taking = asyncio.create_task(parts.take(KEY, 30.0, 2))
        asked = await supervisor.receive()
        assert isinstance(asked, Take)
        assert (asked.holders, asked.tokens, asked.requests) == (holders_of(KEY), 30.0, 2)
        supervisor.send(Permit(asked.ask, ((b"x-left", b"1"),)))
        taken = await taking
        assert taken is not None
        assert taken.headers == ((b"x-left", b"1"),)
        parts.settle(taken, 12.0)
        parts.give_back(taken)
        assert await supervisor.receive() == Settle(taken.holders, 30.0, 12.0)
        assert await supervisor.receive() == GiveBack(taken.holders, 30.0)
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())


def test_work_is_booked_wherever_it_is_admitted():
    async def scenario() -> None:
        parts, supervisor = await ends()
        loop, charge = asyncio.get_running_loop(), Charge("m/prompt", 100.0, 100.0, account=("p", "a"))
        admission = parts.admission(2.5)
        for _ in range(2):
            assert admission.admit((charge,), loop.time()) is None
        assert await supervisor.receive() == Booked([("m/prompt", ("p", "a"), 2.0)])
        supervisor.send(Booked([("m/prompt", ("q", "b"), 60.0)]))
        async with asyncio.timeout(120):
            while admission.wait_s("m/prompt", loop.time()) < 30:
                await asyncio.sleep(0)
        assert admission.admit((charge,), loop.time()) is not None
        admission.give_back(charge)
        assert await supervisor.receive() == Booked([("m/prompt", ("p", "a"), -1.0)])
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())


def test_a_supervisor_that_reads_nothing_is_asked_nothing_and_told_in_one_sum_what_was_booked_meanwhile():
    async def scenario() -> None:
        parts, supervisor = await ends()
        loop = asyncio.get_running_loop()
        admission = parts.admission(2.5)
        for _ in range(60_000):  # more bytes than either end may leave lying
            parts.settle(TAKEN, 12.0)
        with pytest.raises(ApiError) as refused:
            await parts.take(KEY, 1.0)
        assert refused.value.status == 503
        for _ in range(2):
            assert admission.admit((Charge("m/prompt", 100.0, 100.0, account=("p", "a")),), loop.time()) is None
            await asyncio.sleep(0.05)  # it would have told of each by itself
        for _ in range(60_000):
            assert await supervisor.receive() == Settle(TAKEN.holders, TAKEN.tokens, 12.0)
        assert await supervisor.receive() == Booked([("m/prompt", ("p", "a"), 2.0)])
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())


def test_a_refusal_is_the_same_error_as_in_one_process():
    async def scenario() -> None:
        parts, supervisor = await ends()
        limits = KeyLimits()
        limits.take(holders_of(KEY), 1.0, 0.0, 2)
        with pytest.raises(ApiError) as alone:
            limits.take(holders_of(KEY), 1.0, 0.0)
        e = alone.value
        taking = asyncio.create_task(parts.take(KEY, 1.0))
        asked = await supervisor.receive()
        assert isinstance(asked, Take)
        supervisor.send(Refusal(asked.ask, e.status, e.kind, e.message, e.code, e.param, e.headers))
        with pytest.raises(ApiError) as shared:
            await taking
        assert (shared.value.status, shared.value.encode(), shared.value.headers) == (e.status, e.encode(), e.headers)
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())


def test_a_permit_for_a_client_that_has_left_is_given_back():
    async def scenario() -> None:
        parts, supervisor = await ends()
        taking = asyncio.create_task(parts.take(KEY, 30.0, 2))
        asked = await supervisor.receive()
        assert isinstance(asked, Take)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        supervisor.send(Permit(asked.ask, ()))
        returned = [await supervisor.receive() for _ in range(2)]
        holders = tuple(who for who, _ in holders_of(KEY))
        assert returned == [GiveBack(holders, 15.0)] * 2
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())


def test_a_worker_whose_loop_turns_gives_a_sign_of_life_when_it_is_asked():
    async def scenario() -> None:
        parts, supervisor = await ends()
        for _ in range(3):
            supervisor.send(Ping())
            assert await supervisor.receive() == Pong()
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())


def test_a_worker_that_does_not_understand_its_supervisor_ends_rather_than_be_deaf():
    async def scenario() -> None:
        parts, supervisor = await ends()
        is_asked_to_end = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, is_asked_to_end.set)
        try:
            supervisor.send(Take(1, [], 1.0, 1))  # such as a release with other messages would send
            async with asyncio.timeout(120):
                await is_asked_to_end.wait()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
        await parts.close()
        await supervisor.close()

    asyncio.run(scenario())
