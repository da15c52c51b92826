"""Live offers are asked for again while a control plane runs: of the clouds of its fleets, when they are due."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from control.chore import Chore
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.market.watch import EVERY, LOOK_S, MarketWatch
from control.offers.live.source import Answer, LiveSource, NoAccessError
from tests.control.market.markets import NOON, after


@dataclass(frozen=True)
class Refusing:
    cloud: str
    name: str = "test"

    def fetch(self, now: datetime) -> Answer:  # noqa: ARG002 - as the port has it
        raise NoAccessError("expired")


@dataclass
class Asked:
    clouds: list[str] = field(default_factory=list)

    def sources(self, clouds: Iterable[str], _: Mapping[str, str]) -> tuple[LiveSource, ...]:
        found = tuple(Refusing(cloud) for cloud in clouds)
        self.clouds += [each.cloud for each in found]
        return found


def test_clouds_of_fleets_are_asked_when_they_are_due_whatever_they_answered(database: Database) -> None:
    fleets, asked = PostgresFleets(database), Asked()
    watch = MarketWatch(database, {}, asked.sources)
    assert watch.step(NOON) == ()
    fleets.create("one", "clouds: [{cloud: local}, {cloud: aws}]", NOON)
    fleets.create("two", "clouds: [{cloud: aws}, {cloud: gcp}, {cloud: none-such}]", NOON)
    fleets.create("broken", "clouds: [{cloud", NOON)
    assert [done.cloud for done in watch.step(NOON)] == ["aws", "gcp"]
    assert watch.step(after(EVERY.total_seconds() - 1)) == ()
    MarketWatch(database, {}, asked.sources).step(after(1))
    assert asked.clouds == ["aws", "gcp"]
    watch.step(NOON + EVERY)
    assert asked.clouds == ["aws", "gcp"] * 2


def test_a_thread_steps_until_it_is_ended(database: Database) -> None:
    PostgresFleets(database).create("one", "clouds: [{cloud: aws}]", NOON)
    begun = threading.Event()

    def sources(clouds: Iterable[str], _: Mapping[str, str]) -> tuple[LiveSource, ...]:
        begun.set()
        return tuple(Refusing(cloud) for cloud in clouds)

    watch = MarketWatch(database, {}, sources)
    chore = Chore("market watch", lambda: watch.step(NOON), LOOK_S)
    chore.begin()
    assert begun.wait(120)
    chore.end()
