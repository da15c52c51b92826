"""A control plane for tests: real PostgreSQL, any cloud, and a process that can be killed at any step."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from sqlalchemy import Connection

from control.cloud.node import CloudNode, NodeRequest
from control.cloud.port import Cloud
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.nodes import PostgresNodes
from control.executor.node_start import NodeStart
from control.executor.nodes import NodeExecutor
from control.executor.recover import Recovered, recover
from templates_lib.values.offer import Market, Offer
from tests.control.lifecycle.worlds import TickingClock

OWNER = "me"
_CLOCK = TickingClock()
"""One for all: a control plane that is started after another has the later time."""


def pass_time(time: timedelta) -> None:
    """For what another process has done meanwhile by a clock of its own."""
    _CLOCK.now += time


START = NodeStart(("sleep", "600"), {"MEDLEY_SERVER": "tcp://127.0.0.1:1"})


def offer(cloud: str = "fake", instance_type: str = "small") -> Offer:
    return Offer(cloud, "here", "here", instance_type, f"{instance_type}:1/n10", Market.ON_DEMAND, 1.0)


@dataclass(frozen=True)
class Fleet:
    instances: PostgresInstances
    nodes: PostgresNodes
    executor: NodeExecutor

    def recover(self, in_flight: timedelta = timedelta(0)) -> Recovered:
        return recover(self.instances, self.nodes, self.executor, in_flight)


def fleet(database: Database, cloud: Cloud) -> Fleet:
    executor = NodeExecutor(PostgresIntents(database), {cloud.name: cloud}, OWNER, _CLOCK)
    return Fleet(PostgresInstances(database), PostgresNodes(database), executor)


class ProcessKilledError(BaseException):
    """What a SIGKILL is to the code that it hits: nothing below handles it."""


class Steps:
    """Counts the moments just before and just after the outside world changes, and dies at the chosen one."""

    def __init__(self, die_at: int, die: Callable[[], None] | None = None) -> None:
        self.where = ""
        """Of its death; empty: it came to its end."""
        self._die_at = die_at
        self._die = die
        self._count = 0
        self._turn = Lock()

    def take(self, where: str) -> None:
        with self._turn:
            if self._count == self._die_at:
                if self._die is not None:
                    self._die()
                self.where = self.where or where
                # The dead do nothing more, in no thread: the count stays.
                raise ProcessKilledError(where)
            self._count += 1


@dataclass(frozen=True)
class MortalCloud:
    """Any adapter, called by a process that may die just before or just after an effect."""

    inner: Cloud
    steps: Steps

    @property
    def name(self) -> str:
        return self.inner.name

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        self.steps.take(f"before create {request.name}")
        node = self.inner.create(request, now)
        self.steps.take(f"after create {request.name}")
        return node

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        self.steps.take("before list")
        return self.inner.list(tags, now)

    def terminate(self, name: str, now: datetime) -> None:
        self.steps.take(f"before terminate {name}")
        self.inner.terminate(name, now)
        self.steps.take(f"after terminate {name}")


@dataclass(frozen=True, slots=True)
class MortalDatabase(Database):
    """The same database, spoken to by a process that may die before any commit, or before it knows of it."""

    steps: Steps = field(kw_only=True)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with Database.transaction(self) as connection:
            yield connection
            self.steps.take("before a commit")
        self.steps.take("after a commit")


def mortal_fleet(database: Database, cloud: Cloud, steps: Steps) -> Fleet:
    return fleet(MortalDatabase(database.engine, database.name, steps=steps), MortalCloud(cloud, steps))
