"""The database server goes away under a loop that runs, at the worst moments, and comes back: nothing is doubled or
lost, and the loop goes on by itself."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pytest

from control.cloud.node import CloudNode, NodeRequest
from control.db.cluster import PostgresCluster
from control.db.database import open_database
from control.db.embedded import embedded_server
from control.db.errors import DatabaseUnavailableError
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.db.processes import lives, wait_until
from tests.control.reconcile.reconciled import Place, Plane, spec

DOWN_S = 3.0
STOCK = {"cheap": 6, "dear": 6}


class Server:
    """One of its own: others of the session would miss it."""

    def __init__(self, home: Path) -> None:
        self._cluster = PostgresCluster.of(home)

    def stop(self) -> None:
        """Sessions are ended in the middle of what they do."""
        self._cluster.stop()

    def kill(self) -> None:
        pid = self._cluster.address().pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not lives(pid))

    def start(self) -> None:
        self._cluster.ensure_running()


class Undone(FakeCloud):
    """Does what it is asked for, and then something else before whoever asked knows."""

    def __init__(self, name: str, stock: Mapping[str, int]) -> None:
        super().__init__(name, stock)
        self.method = ""
        """Whose next call it is due at."""
        self._then: Callable[[], None] = lambda: None

    def after(self, method: str, then: Callable[[], None]) -> None:
        self.method, self._then = method, then

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        node = super().create(request, now)
        self._done("create")
        return node

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        found = super().list(tags, now)
        self._done("list")
        return found

    def terminate(self, name: str, now: datetime) -> None:
        super().terminate(name, now)
        self._done("terminate")

    def _done(self, method: str) -> None:
        if method == self.method:
            self.method = ""
            self._then()


@pytest.fixture
def server(short_tmp: Path) -> Iterator[Server]:
    with embedded_server(short_tmp / "restarted"):
        yield Server(short_tmp / "restarted")


def without(server: Server, plane: Plane) -> None:
    """The loop goes round while nobody answers."""
    for _ in range(int(DOWN_S / 0.25)):
        plane.place.pass_time(0.25)
        plane.loop.tick()
    assert not plane.loop.leads
    server.start()


def until_gone(plane: Plane, cloud: Undone) -> None:
    """Ticks until the server has gone in the middle of one."""
    for _ in range(400):
        plane.place.pass_time(0.25)
        plane.loop.tick()
        if not cloud.method:
            return
        plane.place.nodes_report()
    raise AssertionError(f"{cloud.method} was never called")


def test_it_is_stopped_and_started_in_the_middle_of_every_kind_of_call(
    server: Server, short_tmp: Path, tmp_path: Path
) -> None:
    with open_database(data_dir=short_tmp / "restarted") as database:
        cloud = Undone("local", STOCK)
        place = Place(database, tmp_path, cloud)
        place.put(spec(rate=0.6))
        plane = Plane(place)
        for method, rate, away in (
            ("create", 0.6, server.stop),
            ("list", 0.6, server.kill),
            ("create", 1.2, server.kill),
            ("terminate", 0.2, server.stop),
        ):
            place.put(spec(rate=rate))
            cloud.after(method, away)
            until_gone(plane, cloud)
            without(server, plane)
            plane.run(5)
            plane.until_settled(120)
            listed = [node.name for node in cloud.list({}, place.now)]
            on_record = [node.id for i in PostgresInstances(database).living() for node in i.nodes]
            assert sorted(listed) == sorted(on_record), method
            assert set(place.states()) == {"ready"}
            assert PostgresIntents(database).open("local") == ()
        named = [call.subject for call in cloud.calls if call.method == "create"]
        assert len(place.states()) == 1
        assert len(set(named)) == len(named), "nothing was asked for twice"
        assert len(place.events("leader.leads")) == 5
        plane.leader.resign()


def test_a_plan_that_could_not_be_written_down_is_made_again_at_once(
    server: Server, short_tmp: Path, tmp_path: Path
) -> None:
    with open_database(data_dir=short_tmp / "restarted") as database:
        cloud = Undone("local", STOCK)
        place = Place(database, tmp_path, cloud)
        place.put(spec())
        plane = Plane(place)
        plane.until_settled()
        place.put(spec(rate=1.2))
        place.planning = server.stop
        place.pass_time(3)
        plane.loop.tick()
        with pytest.raises(DatabaseUnavailableError):
            place.states()
        place.planning = lambda: None
        without(server, plane)
        plane.run(5)
        plane.until_settled(20)
        assert len(place.states()) > 1
        assert place.events("fleet.trouble") == []
        plane.leader.resign()
