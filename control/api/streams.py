"""The feeds of an API process: events, and instances with what keeps them busy."""

from dataclasses import dataclass

import msgspec

from control.api.feed import Feed, FeedMessage, FeedSource
from control.api.settings import ApiSettings
from control.db.database import Database
from control.db.events import PostgresEvents
from control.db.followed import instance_steps, newest_event, newest_step, scheduler_loads
from control.lifecycle.fleet_event import PastEvent

_CHUNK = 500


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    events: Feed
    instances: Feed

    @property
    def followers(self) -> int:
        return self.events.followers + self.instances.followers

    async def close(self) -> None:
        await self.events.close()
        await self.instances.close()


def streams(database: Database, settings: ApiSettings) -> Streams:
    def feed(source: FeedSource) -> Feed:
        return Feed(source, settings.stream_poll_s, settings.heartbeat_s)

    loads = _Loads(database)
    return Streams(
        events=feed(
            FeedSource(
                lambda after: [_event(past) for past in PostgresEvents(database).since(after, _CHUNK)],
                lambda: newest_event(database),
            )
        ),
        instances=feed(
            FeedSource(lambda after: _steps(database, after), lambda: newest_step(database), passing=loads.changed)
        ),
    )


def event_document(past: PastEvent) -> dict[str, object]:
    """Return an event as lists and streams of events show it."""
    document: dict[str, object] = {"sequence": past.sequence, "at": past.at}
    document |= msgspec.to_builtins(past.event)
    return document


def _event(past: PastEvent) -> FeedMessage:
    return FeedMessage(past.sequence, "event", past.event.fleet, msgspec.json.encode(event_document(past)).decode())


def _steps(database: Database, after: int) -> list[FeedMessage]:
    return [
        FeedMessage(step.sequence, "transition", fleet, msgspec.json.encode(step).decode())
        for fleet, step in instance_steps(database, after, _CHUNK)
    ]


class _Loads:
    """Loads that have changed since the last look, so that a fleet at rest sends nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._before: dict[str, bytes] = {}

    def changed(self) -> list[FeedMessage]:
        now = {load.instance: load for load in scheduler_loads(self._database)}
        encoded = {name: msgspec.json.encode(load) for name, load in now.items()}
        news = [
            FeedMessage(0, "load", now[name].fleet, data.decode())
            for name, data in encoded.items()
            if self._before.get(name) != data
        ]
        self._before = encoded
        return news
