"""Live views: what happens is sent as it happens, once, in order, and again from where one was."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from control.api.feed import Feed, FeedMessage, FeedSource
from control.api.streams import streams
from control.db.database import Database
from control.db.events import PostgresEvents
from control.db.instances import PostgresInstances
from control.lifecycle.event import Event, EventKind
from control.lifecycle.fleet_event import FleetEvent
from tests.control.api.conftest import SETTINGS, Api, now
from tests.control.api.worlds import kept_plan, serving

PATIENCE_S = 120.0


async def read(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, Any]]:
    """(id, data) of the next `count` messages; comments are left out."""
    found = []
    while len(found) < count:
        text = (await asyncio.wait_for(anext(stream), PATIENCE_S)).decode()
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("id", ""), json.loads(fields["data"])))
    return found


async def until_looking(feed: Feed) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not feed.is_looking:
            await asyncio.sleep(0.01)


def add(database: Database, *subjects: str, fleet: str = "chat") -> None:
    PostgresEvents(database).add([FleetEvent("token:x", "a.kind", "why", fleet, each) for each in subjects], now())


def test_events_are_sent_as_they_happen_and_resumed(database: Database) -> None:
    async def follow() -> None:
        feed = streams(database, SETTINGS).events
        add(database, "before")
        stream = feed.follow(None, None)
        await anext(stream)
        first = asyncio.create_task(read(stream, 2))
        await until_looking(feed)
        await asyncio.to_thread(add, database, "one", "two")
        seen = await first
        assert [data["subject"] for _, data in seen] == ["one", "two"]
        await stream.aclose()
        await asyncio.to_thread(add, database, "three")
        resumed = feed.follow(int(seen[0][0]), None)
        assert [data["subject"] for _, data in await read(resumed, 2)] == ["two", "three"]
        other = feed.follow(0, "search")
        await asyncio.to_thread(add, database, "four", fleet="search")
        assert [data["subject"] for _, data in await read(other, 1)] == ["four"]
        await feed.close()

    asyncio.run(follow())


def test_a_step_of_an_instance_and_its_load_are_sent(database: Database) -> None:
    async def follow() -> None:
        kept_plan(database, "chat")
        instance = serving(database, "chat", now())
        feed = streams(database, SETTINGS).instances
        stream = feed.follow(0, None)
        steps = [data["to_state"] for _, data in await read(stream, 5)]
        assert steps == ["requested", "provisioning", "bootstrapping", "loading", "ready"]
        await asyncio.to_thread(PostgresInstances(database).apply, instance.id, Event(EventKind.DRAIN, "why"), now())
        ((_, data),) = await read(stream, 1)
        assert (data["instance_id"], data["to_state"]) == (instance.id, "draining")
        await feed.close()

    asyncio.run(follow())


def test_none_is_missed_when_writers_commit_out_of_order() -> None:
    """Two is written before three and seen after it."""

    async def follow() -> None:
        there = {1, 3}
        source = FeedSource(lambda after: [_message(n) for n in sorted(there) if n > after], lambda: max(there))
        feed = Feed(source, 0.01, 1.0)
        stream = feed.follow(0, None)
        assert [data for _, data in await read(stream, 1)] == [1]
        there.add(2)
        assert [data for _, data in await read(stream, 2)] == [2, 3]
        there.add(5)  # four was rolled back
        assert [data for _, data in await read(stream, 1)] == [5]
        await feed.close()

    asyncio.run(follow())


def test_who_reads_too_slowly_is_sent_away() -> None:
    async def follow() -> None:
        newest = 0
        source = FeedSource(lambda after: [_message(n) for n in range(after + 1, newest + 1)], lambda: newest)
        feed = Feed(source, 0.01, 2 * PATIENCE_S)  # no heartbeat comes first
        stream = feed.follow(0, None)
        await anext(stream)
        waiting = asyncio.create_task(anext(stream))
        await until_looking(feed)
        newest = 5_000
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, PATIENCE_S)
        assert feed.followers == 0

    asyncio.run(follow())


def test_what_is_no_event_id_is_refused(viewer: Api) -> None:
    assert viewer.get("/events:follow", Last_Event_ID="x").status_code == 400
    assert viewer.get("/events:follow?since=-1").status_code == 422


def _message(number: int) -> FeedMessage:
    return FeedMessage(number, "event", "", json.dumps(number))
