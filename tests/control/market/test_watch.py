"""Live offers are asked for again while a control plane runs: of the clouds of its fleets, when they are due."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from control.chore import Chore
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.market.watch import EVERY, LOOK_S, MarketWatch
from control.offers.live.source import LiveAnswer, LiveSource, NoAccessError, NoAnswerError, SourceError
from templates_lib.values.hardware import node_config_from_id
from tests.control.market.markets import NOON, after, offer


@dataclass(frozen=True)
class Source:
    """Refuses as told, or sells one machine."""

    cloud: str
    refusal: SourceError | None = None
    name: str = "test"

    def fetch(self, now: datetime) -> LiveAnswer:  # noqa: ARG002 - as the port has it
        if self.refusal is not None:
            raise self.refusal
        sold = offer()
        return LiveAnswer((sold,), {sold.node_config: node_config_from_id(sold.node_config)})


EXPIRED = NoAccessError("expired")


@dataclass
class Asked:
    clouds: list[str] = field(default_factory=list)

    def sources(self, clouds: Iterable[str], _: Mapping[str, str]) -> tuple[LiveSource, ...]:
        found = tuple(Source(cloud, EXPIRED) for cloud in clouds)
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


def test_fleets_are_planned_anew_when_a_cloud_is_left_out_and_when_it_answers(database: Database) -> None:
    PostgresFleets(database).create("one", "clouds: [{cloud: aws}]", NOON)
    PostgresFleets(database).create("two", "clouds: [{cloud: gcp}]", NOON)
    throttled, woken = NoAnswerError("throttled"), list[tuple[str, str]]()
    answers = iter([EXPIRED, EXPIRED, throttled, None, None, throttled, EXPIRED])

    def sources(clouds: Iterable[str], _: Mapping[str, str]) -> tuple[LiveSource, ...]:
        refusal = next(answers)
        return tuple(Source(cloud, refusal) for cloud in clouds if cloud == "aws")

    watch = MarketWatch(database, {}, sources, lambda fleet, why: woken.append((fleet, why)))
    told = []
    for number in range(7):
        woken.clear()
        watch.step(NOON + number * EVERY)
        told.append([*woken])
    left_out, answered = ("one", "aws is left out"), ("one", "aws says what it sells")
    assert told == [[left_out], [], [], [answered], [], [], [left_out]]


def test_a_thread_steps_until_it_is_ended(database: Database) -> None:
    PostgresFleets(database).create("one", "clouds: [{cloud: aws}]", NOON)
    begun = threading.Event()

    def sources(clouds: Iterable[str], _: Mapping[str, str]) -> tuple[LiveSource, ...]:
        begun.set()
        return tuple(Source(cloud, EXPIRED) for cloud in clouds)

    watch = MarketWatch(database, {}, sources)
    chore = Chore("market watch", lambda: watch.step(NOON), LOOK_S)
    chore.begin()
    assert begun.wait(120)
    chore.end()
