"""Real gateways that report to a real desk with a real database: everything once, whoever is away when."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import openai
import pytest
from sqlalchemy import func, select

from agents.channels.keys import KeyPair
from agents.messages import session
from agents.messages.to_demand_desk import RECENT_PROTOCOL
from bench.text_tables import WHOLE, member, text_model
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.demand_tables import demand_line, key_use
from control.demand.desk import DemandDesk
from control.demand.heard_load import HeardLoad
from control.gateway.published import Hold
from policies.pools.lateness import Answers
from templates_lib.values.slo import Slo
from templates_lib.values.work import Unit
from tests.control.gateway.world import MODEL, World
from tests.free_port import free_address


@asynccontextmanager
async def desk(
    database: Database,
    worlds: list[World],
    woken: list[str],
    bind: str,
    keys: KeyPair,
    heard: HeardLoad | None = None,
) -> AsyncIterator[DemandDesk]:
    known = {world.keys.public: f"gateway-{n}" for n, world in enumerate(worlds)}
    made = DemandDesk(
        bind,
        keys,
        known,
        PostgresDemand(database),
        lambda: datetime.now(UTC),
        lambda _, app: woken.append(app),
        heard or HeardLoad(),
    )
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        made.close()


def recorded(database: Database, count: str = "offered") -> tuple[int, ...]:
    """Requests, prompt tokens and output tokens."""
    with database.transaction() as connection:
        units = select(demand_line.c.unit, func.sum(demand_line.c[count])).group_by(demand_line.c.unit)
        found = {unit: int(of) for unit, of in connection.execute(units)}
    return tuple(found.get(unit, 0) for unit in (Unit.INVOCATION, Unit.PROMPT_TOKEN, Unit.OUTPUT_TOKEN))


async def until(condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
    end = time.monotonic() + timeout_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def heard_of(heard: HeardLoad, judged: int, timeout_s: float = 120.0) -> Answers:
    """Wait until the answers of the last minute are so many; whatever was said meanwhile, units are those of its
    requests."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if (of := heard.of("f", datetime.now(UTC)).get(MODEL)) is not None:
            assert of.units_per_s[f"{MODEL}/prefill"] == pytest.approx(4 * of.requests_per_s)
            assert bool(of.requests) is (of.requests_per_s > 0)
            if of.answers.judged == judged:
                return of.answers
        await asyncio.sleep(0.02)
    raise AssertionError(f"answers of {judged} requests are not known")


def send(world: World, count: int, prompt: str = "abcd", tokens: int = 8) -> None:
    client = world.client()
    for _ in range(count):
        client.completions.create(model=MODEL, prompt=prompt, max_tokens=tokens, extra_body={"ignore_eos": True})


def start(world: World, address: DemandDesk | None, *arguments: str) -> None:
    world.model = {"fleet": "f", **world.model}
    world.desk = None if address is None else address.address
    world.publish()
    world.start_gateway("--metering-interval-s", "1", *arguments)
    world.wait_ready()


def test_two_gateways_add_up_while_desk_and_database_come_and_go(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
):
    asyncio.run(_two_gateways_add_up_while_desk_and_database_come_and_go(tmp_path, database, monkeypatch))


async def _two_gateways_add_up_while_desk_and_database_come_and_go(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    worlds, keys, woken = [World(tmp_path / "a"), World(tmp_path / "b")], KeyPair.generate(), list[str]()
    heard, former = HeardLoad(), HeardLoad()
    endpoint = free_address()
    routing = replace(text_model(MODEL, [member(MODEL, "e1", "z1", WHOLE, 1e9)]), objective=Slo(1e9, 1e-9))
    try:
        async with desk(database, worlds, woken, endpoint, keys, heard) as first:
            for world in worlds:
                world.model = {"routing": routing}
                await asyncio.to_thread(world.echo, "e1")
                await asyncio.to_thread(start, world, first)
            seen = asyncio.create_task(heard_of(heard, 6))
            await asyncio.gather(*(asyncio.to_thread(send, world, 3) for world in worlds))
            assert await seen == Answers(6, 0), "in time for the first token, late for those after it"
            await until(lambda: recorded(database) == (6, 24, 48))
        # Nobody listens: gateways serve on and keep what they count.
        await asyncio.gather(*(asyncio.to_thread(send, world, 2) for world in worlds))
        monkeypatch.setattr(session, "NEWEST_PROTOCOL", RECENT_PROTOCOL - 1)
        async with desk(database, worlds, woken, endpoint, keys, former):
            await until(lambda: recorded(database) == (10, 40, 80))
            world = worlds[0]
            await asyncio.to_thread(send, world, 1)
            assert world.gateway is not None
            await asyncio.to_thread(world.gateway.stop)  # it says its last before it ends
            await until(lambda: recorded(database) == (11, 44, 88))
        assert woken == []
        assert former.of("f", datetime.now(UTC)) == {}, "a desk of the release before is told what it can read"
        assert recorded(database, "served") == (11, 44, 88)
        keys = select(key_use.c.key, key_use.c.unit, func.sum(key_use.c.served)).group_by(key_use.c.key, key_use.c.unit)
        used = {(key, unit): int(units) for key, unit, units in database.read(keys)}
        own = "0123456789ab"  # the one key of both
        assert used == {(own, "invocation"): 11, (own, "prompt_token"): 44, (own, "output_token"): 88}
    finally:
        for world in worlds:
            world.stop()


def test_what_is_refused_is_offered_too_and_a_retry_of_it_is_not_more(tmp_path: Path, database: Database):
    asyncio.run(_what_is_refused_is_offered_too_and_a_retry_of_it_is_not_more(tmp_path, database))


async def _what_is_refused_is_offered_too_and_a_retry_of_it_is_not_more(tmp_path: Path, database: Database):
    world, keys = World(tmp_path, model={"mean_output_tokens": 8.0}), KeyPair.generate()
    world.rate = 0.05  # what is over is so for minutes
    try:
        async with desk(database, [world], [], "tcp://127.0.0.1:0", keys) as listening:
            await asyncio.to_thread(world.echo, "e1")
            await asyncio.to_thread(start, world, listening, "--max-wait-s", "0")
            await asyncio.to_thread(send, world, 1)
            for count in range(3):
                with pytest.raises(openai.RateLimitError):
                    await asyncio.to_thread(
                        world.client().completions.create,
                        model=MODEL,
                        prompt="abcd",
                        max_tokens=8,
                        extra_headers={"x-stainless-retry-count": str(count)},
                    )
            assert world.gateway is not None
            await asyncio.to_thread(world.gateway.stop)  # it says its last before it ends
            await until(lambda: recorded(database) == (2, 8, 16))
    finally:
        world.stop()


def test_who_begins_to_wait_for_a_model_at_zero_wakes_the_control_plane(tmp_path: Path, database: Database):
    asyncio.run(_who_begins_to_wait_for_a_model_at_zero_wakes_the_control_plane(tmp_path, database))


async def _who_begins_to_wait_for_a_model_at_zero_wakes_the_control_plane(tmp_path: Path, database: Database):
    world, keys, woken = World(tmp_path, model={"hold": Hold(8, 60.0)}), KeyPair.generate(), list[str]()
    store = PostgresDemand(database)

    def waiting() -> dict[str, int]:
        return store.waiting("f", datetime.now(UTC))

    try:
        async with desk(database, [world], woken, "tcp://127.0.0.1:0", keys) as listening:
            await asyncio.to_thread(start, world, listening)
            with ThreadPoolExecutor(2) as pool:
                futures = [pool.submit(send, world, 1) for _ in range(2)]
                await until(lambda: waiting() != {})
                assert set(waiting()) == {MODEL}
                assert woken == [f"requests wait for {MODEL}, which nothing serves"]
                world.echo("e1")
                world.publish()
                for future in futures:
                    await asyncio.to_thread(future.result)
            await until(lambda: waiting() == {})
            assert world.gateway is not None
            await asyncio.to_thread(world.gateway.stop)
            await until(lambda: recorded(database) == (2, 8, 16))
            assert len(woken) == 1, "the second that waits is no news"
    finally:
        world.stop()
