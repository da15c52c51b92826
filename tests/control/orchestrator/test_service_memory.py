"""Workers whose memory has a bound: real processes, with services of 64 MiB."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil
import pytest

from control.db.database import Database
from control.orchestrator.code_process import WORKER
from control.orchestrator.inspected import inspected
from control.orchestrator.service_queue import Computed, Queued
from control.orchestrator.service_workers import AppWorkers
from control.runs.record import AppVersion
from tests.control.orchestrator.apps import source
from tests.control.orchestrator.test_call_places import until
from tests.control.orchestrator.world import QUICK, World

ONE_MIB, TWO_MIB = 130, 190
"""Room for a process with one service, and with two: it takes some 25 MiB without any."""
APP = '''
import os
import time

import medley_sdk as medley
from medley_sdk import service

PIECES, PIECE = 671, 100_000
LEFT = []


class Holds:
    """64 MiB, in pieces that go back to the system only when the allocator is told to, and in a cycle."""

    def __init__(self) -> None:
        with open("FOLDER/loads", "a") as file:
            file.write(type(self).__name__[0])
        self.held = [bytes([65 + at % 26]) * PIECE for at in range(PIECES)]
        self.cycle = self

    def __call__(self, numbers: list[int]) -> list[int]:
        return [number * self.held[number % PIECES][0] for number in numbers]


class HoldsThree(Holds):
    def __init__(self) -> None:
        super().__init__()
        self.more = b"x" * (2 * PIECES * PIECE)


class HoldsForEver(Holds):
    def __init__(self) -> None:
        super().__init__()
        LEFT.append(self.held)


class Gate:
    """Ends once there is a file."""

    def __call__(self, numbers: list[int]) -> list[int]:
        while not os.path.exists("FOLDER/open"):
            time.sleep(0.005)
        return numbers


A = service(type("A", (Holds,), {}))
B = service(type("B", (Holds,), {}))
C = service(type("C", (Holds,), {}))
Huge = service(type("Huge", (HoldsThree,), {}))
Leaks = service(type("Leaks", (HoldsForEver,), {}))
Closed = service(type("Closed", (Gate,), {}))


@medley.workflow
async def mixed(start: int) -> list[int]:
    """Each takes the result of the one before; then all at once."""
    value = start
    for each in (A, B, C, B, A):
        value = await each(value % 100 + 1)
    return [value, *await medley.gather(*(each(start) for each in (C, B, A)))]
'''


class OneWorker:
    """A worker, and what its calls gave, in their order."""

    def __init__(self, app: AppWorkers, folder: Path) -> None:
        (self.worker,) = app.workers
        self._loads = folder / "loads"
        self.done: list[tuple[str, Computed]] = []

    @property
    def loads(self) -> str:
        """First letters of the services that were loaded."""
        return self._loads.read_text()

    def call(self, service: str, number: int = 1) -> None:
        data = msgspec.msgpack.encode([[], {"numbers": number}])

        def note(computed: Computed) -> None:
            self.done.append((service, computed))

        self.worker.compute(Queued("r/1", service, data, note, lambda: False), "r")

    def computed(self, service: str, number: int = 1) -> Computed:
        """Have one call computed, and wait for it."""
        before = len(self.done)
        self.call(service, number)
        until(lambda: len(self.done) > before)
        return self.done[-1][1]

    def value(self, service: str, number: int = 1) -> int:
        computed = self.computed(service, number)
        assert not computed.failure
        return msgspec.msgpack.decode(computed.value, type=int)

    def here(self) -> set[str]:
        """Services that placement takes for loaded by now."""
        loaded_s = self.worker.expected("").place.loaded_s or {}
        return {name for name, at_s in loaded_s.items() if at_s == 0.0}


def _is_worker(process: psutil.Process) -> bool:
    try:
        return WORKER in process.cmdline()
    except psutil.Error:  # another test's, which has ended
        return False


def resident_mib() -> float:
    """Of the only worker's process."""
    (found,) = filter(_is_worker, psutil.Process().children())
    return found.memory_info().rss / (1 << 20)


@contextmanager
def one_worker(folder: Path, most_mib: int | None) -> Iterator[OneWorker]:
    text = source(APP.replace("FOLDER", str(folder)))
    services = {info.name: info for info in inspected(text, needs_isolation=False).services}
    version = AppVersion("v", "p", text.file, text.text, datetime.now(UTC), "tester")
    app = AppWorkers(version, services, replace(QUICK, worker_memory_mib=most_mib))
    try:
        yield OneWorker(app, folder)
    finally:
        (folder / "open").touch()
        for worker in app.workers:
            worker.close()


def test_the_least_recently_used_goes_and_its_memory_is_given_back(tmp_path: Path) -> None:
    with one_worker(tmp_path, TWO_MIB) as one:
        for service, here, loads in (
            ("A", "A", "A"),
            ("B", "AB", "AB"),
            ("A", "AB", "AB"),
            ("C", "AC", "ABC"),
            ("A", "AC", "ABC"),
            ("B", "AB", "ABCB"),
            ("C", "BC", "ABCBC"),
        ):
            for number in (1, 7):
                assert one.value(service, number) == number * (65 + number)
            assert one.here() == set(here)
            assert one.loads == loads
            assert 64 * len(here) < resident_mib() <= TWO_MIB


def test_without_a_bound_all_stay(tmp_path: Path) -> None:
    with one_worker(tmp_path, None) as one:
        for service in "ABCABC":
            one.value(service)
        assert one.here() == set("ABC")
        assert one.loads == "ABC"


def test_what_the_queue_needs_stays_and_what_needs_no_load_is_computed_first(tmp_path: Path) -> None:
    with one_worker(tmp_path, TWO_MIB) as one:
        for service in "CBA":  # C is known, and goes
            one.value(service)
        assert one.here() == set("AB")
        one.done.clear()
        for service in ("Closed", "C", "B", "A", "C"):
            one.call(service)
        (tmp_path / "open").touch()
        until(lambda: len(one.done) == 5)
        assert [service for service, _ in one.done] == ["Closed", "B", "C", "C", "A"], "B first, and it goes for C"
        assert one.loads == "CBAC"


def test_what_is_promised_stays_and_a_prediction_takes_no_place_of_it(tmp_path: Path) -> None:
    with one_worker(tmp_path, TWO_MIB) as one:
        for service in "CBA":
            one.value(service)
        one.value("A")
        one.worker.expect("other", ["B"], ["C"])
        assert one.value("C")
        assert one.here() == set("BC"), "A was used last, and nothing needs it"
        one.worker.expect("other", ["B", "A"], ["C"])
        until(lambda: one.here() == set("AB"))
        assert one.value("A")
        assert one.loads == "CBACA", "C is predicted, and has no room"


def test_what_can_never_fit_fails_its_calls_and_says_what_to_do(tmp_path: Path) -> None:
    with one_worker(tmp_path, TWO_MIB) as one:
        one.value("A")
        for _ in range(2):
            computed = one.computed("Huge")
            assert "service Huge: it takes 19" in computed.failure
            assert f"the {TWO_MIB} MiB that a worker may take" in computed.failure
            assert "--worker-memory-mib 2" in computed.failure
            assert not computed.is_begun
        assert one.value("A", 2) == 2 * 67
        assert one.loads == "AHHA", "once beside what was there, once alone"
        assert resident_mib() <= TWO_MIB


def test_a_process_that_does_not_give_memory_back_is_started_anew(tmp_path: Path) -> None:
    with one_worker(tmp_path, ONE_MIB) as one:
        for service in ("Leaks", "A", "Leaks", "A", "B"):
            assert one.value(service, 3) == 3 * 68
            assert one.here() == {service}
            assert resident_mib() <= ONE_MIB
        assert one.loads == "LAALAB", "what A takes was not known at first"


@pytest.mark.slow
def test_runs_give_the_same_whether_services_go_or_stay(database: Database, tmp_path: Path) -> None:
    world = World(database)
    world.push(APP.replace("FOLDER", str(tmp_path)))
    found = []
    for most_mib in (None, ONE_MIB):
        with world.orchestrator(worker_memory_mib=most_mib):
            runs = [world.start("mixed", start=start) for start in (3, 5)]
            found.append([world.answer(run) for run in runs])
    assert found[0] == found[1]
    assert found[0][0][1:] == [3 * 68] * 3
