"""A desk as processes of gateways meet it: what each holds counts; one that says what cannot be stored harms none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from sqlalchemy import select

from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_demand_desk import Offered, OfferedLine, Recent, RecentLine, ServedKey, Waiting, WaitingLine
from agents.messages.to_reporter import OfferedStored, ToReporter
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_tables import demand_line
from control.demand.desk import DemandDesk
from control.demand.heard_load import HeardLoad
from tests.agents.channels.channel_ends import PATIENCE_S, Seen
from tests.control.gateway.test_metering import until


@asynccontextmanager
async def processes(database: Database, woken: list[str]) -> AsyncIterator[list[tuple[Dialer[ToReporter], Seen]]]:
    """Two of one gateway, which a desk has welcomed."""
    keys, its = KeyPair.generate(), KeyPair.generate()
    store = PostgresDemand(database)
    made = DemandDesk(
        "tcp://127.0.0.1:0", keys, {its.public: "g"}, store, lambda: datetime.now(UTC),
        lambda _, why: woken.append(why), HeardLoad(),
    )  # fmt: skip
    task = asyncio.create_task(made.run())
    ends = [(Dialer(made.address, its, "gateway", ToReporter, seen), seen) for seen in (Seen(), Seen())]
    try:
        for dialer, _ in ends:
            await dialer.wait_up(PATIENCE_S)
        yield ends
    finally:
        for dialer, _ in ends:
            dialer.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        made.close()


def test_what_each_process_of_a_gateway_holds_is_added_up_and_one_that_ends_takes_its_own_along(database: Database):
    async def scenario() -> None:
        store, woken = PostgresDemand(database), list[str]()

        async def held(requests: dict[str, int]) -> None:
            await until(lambda: store.waiting("f", datetime.now(UTC)) == requests)

        async with processes(database, woken) as ((one, _), (other, _)):
            one.send(Waiting((WaitingLine("f", "m", 2),)))
            await held({"m": 2})
            other.send(Waiting((WaitingLine("f", "m", 3), WaitingLine("f", "\0", 1))))  # it cannot be stored
            other.send(Waiting((WaitingLine("f", "m", 3),)))
            await held({"m": 5})
            other.send(Waiting(()))
            await held({"m": 2})
            one.close()
            await held({})
        assert set(woken) == {"requests wait for m, which nothing serves"}

    asyncio.run(scenario())


def test_what_came_of_late_is_on_record_for_others_until_its_process_ends(database: Database):
    def said(requests: int) -> Recent:
        return Recent(10.0, (RecentLine("f", "m", requests, (), 0, 0),))

    async def scenario() -> None:
        store = PostgresDemand(database)

        async def known(*requests: int) -> None:
            def is_known() -> bool:
                recent = [each for _, each in store.recent(datetime.now(UTC)).values()]
                return sorted(each.lines[0].requests for each in recent) == list(requests)

            await until(is_known)

        async with processes(database, []) as ((one, _), (other, _)):
            one.send(said(1))
            other.send(said(2))
            await known(1, 2)
            other.send(said(3))
            await known(1, 3)
            other.close()
            await known(1)

    asyncio.run(scenario())


def test_a_report_that_cannot_be_stored_is_given_up_and_those_beside_it_are_kept(database: Database):
    def of(life: str, *lines: OfferedLine) -> Offered:
        return Offered(life, int(datetime.now(UTC).timestamp()) // 60 * 60, 60, 1, lines)

    def line(app: str, *keys: ServedKey) -> OfferedLine:
        return OfferedLine("f", app, "chat", "p", 1, 0, 0, 0, 1, 0, 0, (), keys)

    async def scenario() -> None:
        async with processes(database, []) as ((hostile, refused), (other, seen)):
            hostile.send(of("a", line("m", ServedKey("k\0", 1, ()))))
            hostile.send(of("b", line("n\0")))
            other.send(of("c", line("kept")))
            await seen.until(lambda: seen.messages)
            await refused.until(lambda: len(refused.messages) == 2)
            assert all(isinstance(each, OfferedStored) for each in (*refused.messages, *seen.messages))
            other.send(of("d", line("later")))
            await seen.until(lambda: len(seen.messages) == 2)
        apps = select(demand_line.c.app).distinct().order_by("app")
        assert database.read_column(apps) == ["kept", "later"]

    asyncio.run(scenario())
