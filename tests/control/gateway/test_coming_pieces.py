"""Made sound that clients do not take: held within a budget, by which one answer does not end the others."""

import asyncio
from collections.abc import AsyncIterator

from agents.messages.component_work import Made
from agents.messages.to_gateway import Failed, Failure
from control.gateway.counts import Counts
from control.gateway.making.coming_pieces import ComingPieces, PieceBudget


def piece(number: int) -> Made:
    return Made(1, number, bytes(10), 1.0, is_last=False, samples_per_s=24_000)


def test_an_answer_that_nobody_reads_ends_and_leaves_room_for_others() -> None:
    async def scenario() -> None:
        budget = PieceBudget(100, Counts.of_one())
        unread, read = ComingPieces(budget), ComingPieces(budget)
        for number in range(10):
            unread.put(piece(number))
        assert unread.is_over
        for number in range(50):
            read.put(piece(number))
            assert await read.take() == piece(number)
        taken = [number async for number in taken_of(unread)]
        assert taken == list(range(len(taken)))
        assert 1 < len(taken) < 10
        unread.close()
        budget.take(95)
        waits = asyncio.create_task(read.take())
        await asyncio.sleep(0)
        read.put(piece(50))
        assert await waits is None

    asyncio.run(scenario())


def test_what_is_left_is_given_back_and_failures_always_come() -> None:
    async def scenario() -> None:
        budget = PieceBudget(40, Counts.of_one())
        for _ in range(100):
            coming = ComingPieces(budget)
            coming.put(piece(0))
            coming.put(piece(1))
            failed = Failed(1, Failure.ENGINE, "gone")
            coming.put(failed)
            assert [await coming.take() for _ in range(3)] == [piece(0), piece(1), failed]
            coming.put(piece(2))
            assert not coming.is_over
            coming.close()
            coming.close()

    asyncio.run(scenario())


async def taken_of(coming: ComingPieces) -> AsyncIterator[int]:
    while isinstance(message := await coming.take(), Made):
        yield message.number
