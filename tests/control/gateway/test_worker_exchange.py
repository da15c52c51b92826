"""What workers of a gateway share, over real socket pairs; the test is the workers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from control.gateway.key_limits import Holder, holders_of
from control.gateway.metrics import GatewayMetrics
from control.gateway.published import AccessKey
from control.gateway.readiness import Readiness
from control.gateway.workers.exchange import Exchange
from control.gateway.workers.member import Member
from control.gateway.workers.messages import (
    AskWhole,
    Booked,
    GiveBack,
    Listening,
    Permit,
    Refusal,
    Report,
    Settle,
    State,
    Take,
    ToWorker,
    Whole,
)
from control.gateway.workers.pipe import Pipe
from control.gateway.workers.supervisor import DECODER
from control.gateway.workers.totals import families_of
from control.gateway.workers.worker import DECODER as WORKERS_DECODER

KEY = AccessKey("a", "00" * 32, "p", requests_per_minute=4, concurrent_requests=3)
WHO = (Holder("key", "a"),)


class Worker:
    """A member of the exchange, and its worker's end of the pipe."""

    def __init__(self, exchange: Exchange, member: Member, pipe: Pipe[ToWorker]) -> None:
        self.exchange, self.member, self.pipe = exchange, member, pipe
        exchange.join(member)
        exchange.take_in(member, Listening())

    async def take(self, ask: int) -> ToWorker:
        self.exchange.take_in(self.member, Take(ask, holders_of(KEY), 1.0, 1))
        return await self.pipe.receive()


async def worker(exchange: Exchange, number: int) -> Worker:
    own, its = socket.socketpair()
    pipe = await Pipe.over(its, WORKERS_DECODER)
    return Worker(exchange, Member(number, await Pipe.over(own, DECODER)), pipe)


def with_two(scenario: Callable[[Exchange, Worker, Worker], Awaitable[None]]) -> None:
    async def run() -> None:
        exchange = Exchange(2)
        both = [await worker(exchange, n) for n in range(2)]
        assert exchange.all_listen.is_set()
        await scenario(exchange, *both)
        for each in both:
            await each.pipe.close()
            await each.member.pipe.close()

    asyncio.run(run())


def test_a_key_has_its_limits_once_whichever_worker_it_comes_to():
    async def scenario(exchange: Exchange, one: Worker, other: Worker) -> None:
        assert isinstance(await one.take(1), Permit)
        assert isinstance(await other.take(1), Permit)
        assert isinstance(await one.take(2), Permit)
        refused = await other.take(2)  # three are open
        assert isinstance(refused, Refusal)
        assert (refused.ask, refused.status) == (2, 429)
        exchange.take_in(one.member, Settle(WHO, 1.0, 1.0))
        assert isinstance(await other.take(3), Permit)
        exchange.take_in(one.member, GiveBack(WHO, 1.0))
        exchange.take_in(other.member, Settle(WHO, 1.0, 1.0))
        assert isinstance(await other.take(4), Permit)  # the one that was given back
        assert isinstance(await one.take(3), Refusal)  # four in this minute

    with_two(scenario)


def test_what_a_worker_has_open_is_open_no_more_when_it_is_gone_and_stays_used():
    async def scenario(exchange: Exchange, one: Worker, other: Worker) -> None:
        for ask in range(3):
            assert isinstance(await one.take(ask), Permit)
        assert isinstance(await other.take(1), Refusal)
        exchange.leave(one.member)
        assert isinstance(await other.take(2), Permit)
        assert isinstance(await other.take(3), Refusal)  # a minute has four

    with_two(scenario)


def test_work_that_one_admits_goes_to_the_others():
    async def scenario(exchange: Exchange, one: Worker, other: Worker) -> None:
        booked = Booked([("m/prompt", ("p", "a"), 1.5)])
        exchange.take_in(one.member, booked)
        assert await other.pipe.receive() == booked
        exchange.take_in(other.member, Booked([]))
        assert await one.pipe.receive() == Booked([])  # and nothing came back before

    with_two(scenario)


def counted(requests: int, open_calls: int) -> GatewayMetrics:
    metrics = GatewayMetrics()
    metrics.requests.labels("/v1/completions", 200).inc(requests)
    metrics.open_calls.set(open_calls)
    return metrics


async def report(each: Worker, metrics: GatewayMetrics, readiness: Readiness) -> None:
    """Answer what the exchange asks."""
    asked = await each.pipe.receive()
    assert isinstance(asked, Report)
    each.exchange.take_in(each.member, State(asked.ask, families_of(metrics), readiness))


def rows(whole: ToWorker) -> dict[str, float]:
    assert isinstance(whole, Whole)
    found = (line.rsplit(" ", 1) for line in whole.metrics.decode().splitlines() if not line.startswith("#"))
    return {name.removeprefix("medley_gateway_"): float(value) for name, value in found}


def test_a_scrape_has_all_that_both_count_and_a_model_is_ready_where_both_serve_it():
    async def scenario(exchange: Exchange, one: Worker, other: Worker) -> None:
        answered = 'requests_total{endpoint="/v1/completions",status="200"}'
        exchange.take_in(one.member, AskWhole(7))
        await report(one, counted(2, 1), Readiness(["a", "b"], [], ""))
        await report(other, counted(3, 4), Readiness(["b"], ["a"], "an odd table"))
        whole = await one.pipe.receive()
        assert isinstance(whole, Whole)
        assert whole.ask == 7
        assert whole.readiness == Readiness(["b"], ["a"], "an odd table")
        found = rows(whole)
        assert (found[answered], found["open_calls"]) == (5, 5)
        assert (found["workers"], found["worker_restarts_total"]) == (2, 0)

        exchange.take_in(other.member, AskWhole(8))
        await report(other, counted(10, 4), Readiness(["b"], ["a"], ""))
        assert isinstance(await one.pipe.receive(), Report)
        exchange.leave(one.member)  # amid its answer
        found = rows(await other.pipe.receive())
        assert (found[answered], found["open_calls"], found["workers"]) == (12, 4, 1)

        third = await worker(exchange, 0)
        exchange.take_in(third.member, AskWhole(9))
        await report(other, counted(10, 4), Readiness(["b"], ["a"], ""))
        await report(third, counted(1, 0), Readiness([], ["a", "b"], ""))
        whole = await third.pipe.receive()
        assert rows(whole)[answered] == 13
        assert isinstance(whole, Whole)
        assert whole.readiness.ready == []
        await third.pipe.close()
        await third.member.pipe.close()

    with_two(scenario)
