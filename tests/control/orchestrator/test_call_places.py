"""Where an orchestrator has calls computed, by the dispatches of simulations."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from control.db.errors import DatabaseUnavailableError
from control.orchestrator.call_places import MOST_READ, MOST_TOGETHER, CallPlaces, PlannedRun, name_of
from control.orchestrator.inspected import inspected
from control.orchestrator.measured_times import UNMEASURED_BATCH_S, MeasuredService
from control.orchestrator.service_queue import Queued
from control.orchestrator.service_worker import ServiceWorker
from control.orchestrator.service_workers import AppWorkers
from control.runs.record import AppVersion
from medley_sdk.flows.messages import CallKind, FlowCall
from policies.workflows.call_dispatch import CallDispatch
from policies.workflows.call_table import MOST_CALLS
from policies.workflows.dispatches import Greedy, InTurn, Speculative
from policies.workflows.learned_runs import LearnedRuns
from tests.control.orchestrator.apps import source
from tests.control.orchestrator.world import PATIENCE_S, QUICK

NAMES = ("A", "B", "C", "D", "E", "N")
APP = '''
import os
import time

import medley_sdk as medley
from medley_sdk import service


class Loads:
    """Leaves a file when it is loaded."""

    def __init__(self) -> None:
        open(f"FOLDER/{type(self).__name__}", "w").close()

    def __call__(self, numbers: list[int]) -> list[int]:
        return numbers


class Gate:
    """Ends once there is a file."""

    def __call__(self, files: list[str]) -> list[str]:
        while not os.path.exists(files[0]):
            time.sleep(0.005)
        return files


A = service(max_batch=4)(type("A", (Loads,), {}))
B = service(type("B", (Loads,), {}))
C = service(max_batch=4)(type("C", (Loads,), {}))
D = service(type("D", (Loads,), {}))
E = service(type("E", (Loads,), {}))
N = service(network=True)(type("N", (Loads,), {}))
Closed = service(type("Closed", (Gate,), {}))
ClosedToo = service(network=True)(type("ClosedToo", (Gate,), {}))
'''


def call(number: int, target: str, takes: tuple[str, ...] = (), kind: CallKind = CallKind.SERVICE) -> FlowCall:
    return FlowCall(str(number), kind, target, b"", takes)


def workers(folder: Path, places: int) -> AppWorkers:
    text = source(APP.replace("FOLDER", str(folder)))
    services = {info.name: info for info in inspected(text, needs_isolation=False).services}
    version = AppVersion("v", "p", text.file, text.text, datetime.now(UTC), "tester")
    return AppWorkers(version, services, replace(QUICK, places=places))


@pytest.fixture
def app(tmp_path: Path) -> Iterator[AppWorkers]:
    """Two places, and two with a network, none of which does anything until there is the file `open`."""
    made = workers(tmp_path, 2)
    assert set(NAMES) < set(made.services)
    try:
        for worker, gate in zip(made.workers, ("Closed", "Closed", "ClosedToo", "ClosedToo"), strict=True):
            computed_by(made, worker, gate, str(tmp_path / "open"))
        until(lambda: all(computes(worker) for worker in made.workers))
        yield made
    finally:
        for worker in made.workers:
            worker.close()


def computed_by(app: AppWorkers, worker: ServiceWorker, service: str, given: object) -> list[object]:
    """Have a worker compute a call; what came of it is added to the list once it has."""
    name = "files" if service.startswith("Closed") else "numbers"
    found: list[object] = []
    data = msgspec.msgpack.encode([[], {name: given}])
    worker.compute(Queued("other/1", service, data, found.append, lambda: False), "other")
    return found


def until(is_met: Callable[[], object]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not is_met():
        assert time.monotonic() < give_up_s
        time.sleep(0.005)


def computes(worker: ServiceWorker) -> bool:
    batches = worker.expected("").place.batches
    return len(batches) == 1 and batches[0].starts_s < 0


def waiting(app: AppWorkers) -> Counter[tuple[str, int]]:
    """Service and place → calls that are expected there and not computed."""
    found: Counter[tuple[str, int]] = Counter()
    for place, worker in enumerate(app.workers):
        for batch in worker.expected("").place.batches:
            if batch.starts_s >= 0:
                found[batch.service, place] += batch.calls
    return found


def ahead(app: AppWorkers) -> set[str]:
    """Services that are to be loaded, or are."""
    loaded = {name for worker in app.workers for name in worker.expected("").place.loaded_s or ()}
    return loaded & set(NAMES)


def no_journal(project: str, workflow: str, most: int, most_calls: int) -> list[list[FlowCall]]:
    return []


def random_plan(chance: random.Random) -> tuple[list[FlowCall], list[FlowCall]]:
    """Calls that can be started, and calls that wait for them, for each other, and for what is elsewhere."""
    ready = [call(at, chance.choice(NAMES)) for at in range(chance.randint(0, MOST_TOGETHER))]
    later: list[FlowCall] = []
    for at in range(len(ready), len(ready) + chance.randint(0, 6)):
        before = [str(number) for number in range(at)] + ["model"]
        later.append(call(at, chance.choice(NAMES), tuple(chance.sample(before, min(len(before), 2)))))
    chance.shuffle(later)  # paths are no order in which calls follow each other
    return ready, later


@pytest.mark.parametrize("way", ["speculative", "greedy", "round robin"])
def test_every_call_has_one_place_that_computes_its_service_however_often_it_is_planned(
    app: AppWorkers, way: str
) -> None:
    dispatches: dict[str, CallDispatch] = {
        "speculative": Speculative(random.Random(3), LearnedRuns()), "greedy": Greedy(), "round robin": InTurn()
    }  # fmt: skip
    chance, places = random.Random(7), CallPlaces(dispatches[way], no_journal)
    for _ in range(20):
        who = PlannedRun("r", "p", "w", app)
        made: list[str] = []
        for _ in range(3):  # a plan takes the place of the one before
            ready, later = random_plan(chance)
            made += [each.target for each in ready]
            found = places.planned(who, made, ready, later)
            planned = [each for each in (*ready, *later) if each.path in found]
            assert {each.path for each in ready} <= set(found)
            assert len(planned) == len(found) == max(len(ready), min(MOST_TOGETHER, len(ready) + len(later)))
            for each in planned:
                assert each.target in (app.workers[found[each.path]].expected("").services or ())
            assert waiting(app) == Counter((each.target, found[each.path]) for each in planned)
        places.learn(who, [*made, *chance.choices(NAMES, k=3)])
        places.over(who)
        assert not waiting(app)
        assert not ahead(app)


def test_what_was_predicted_wrongly_is_given_up_and_what_follows_now_is_loaded(app: AppWorkers, tmp_path: Path) -> None:
    journal = [[call(1, "A"), call(2, "m", kind=CallKind.MODEL), call(3, "B")], [call(1, "D"), call(2, "N")]]
    asked: list[tuple[str, str, int, int]] = []

    def made(project: str, workflow: str, most: int, most_calls: int) -> list[list[FlowCall]]:
        asked.append((project, workflow, most, most_calls))
        return journal

    places, who = CallPlaces(Speculative(random.Random(3), LearnedRuns()), made), PlannedRun("r", "p", "w", app)
    places.read(who)
    places.read(who)
    assert asked == [("p", "w", MOST_READ, MOST_CALLS)]
    places.planned(who, ["A"], [call(1, "A")], [])
    assert ahead(app) == {"A", "B"}, "behind a model's call, which has no place"
    found = places.planned(who, ["A", "D"], [call(2, "D")], [])
    assert ahead(app) == {"D", "N"}
    asked_d = computed_by(app, app.workers[found["2"]], "D", 1)
    asked_a = [computed_by(app, worker, "A", 1) for worker in app.workers[:2]]
    (tmp_path / "open").touch()
    until(lambda: asked_d and all(asked_a) and (tmp_path / "N").exists())
    assert not (tmp_path / "B").exists()


@pytest.mark.parametrize("kind", [CallKind.MODEL, CallKind.SERVICE])
def test_what_a_run_calls_is_known_by_a_short_name_whatever_its_code_makes_up(kind: CallKind) -> None:
    assert len(name_of(call(1, "x" * (1 << 20), kind=kind)) or "") < 200


def test_a_call_whose_process_cannot_be_started_fails_and_the_next_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workers(tmp_path, 1)
    try:
        with monkeypatch.context() as without:
            without.setattr(sys, "executable", str(tmp_path / "nowhere"))
            failed = computed_by(made, made.workers[0], "A", 1)
            until(lambda: failed)
        assert "nowhere" in failed[0].failure  # type: ignore[attr-defined]
        done = computed_by(made, made.workers[0], "A", 1)
        until(lambda: done)
        assert done[0].failure == ""  # type: ignore[attr-defined]
    finally:
        for worker in made.workers:
            worker.close()


def test_without_a_database_nothing_is_known_and_calls_have_places_all_the_same(app: AppWorkers) -> None:
    def away(*_: object) -> list[list[FlowCall]]:
        raise DatabaseUnavailableError("it is away")

    places, who = CallPlaces(Speculative(random.Random(3), LearnedRuns()), away), PlannedRun("r", "p", "w", app)
    places.read(who)
    assert places.planned(who, ["N"], [call(1, "N")], [])["1"] in (2, 3)


def test_a_batch_is_expected_to_take_what_those_of_about_its_size_took() -> None:
    service = MeasuredService("s", 64)
    assert service.batch_s(5) == UNMEASURED_BATCH_S
    for _ in range(50):
        for calls in (2, 16, 32):
            service.computed(calls, 1.0 + 0.1 * calls)
    for calls, took_s in ((1, 1.2), (2, 1.2), (9, 1.9), (16, 2.6), (24, 3.4), (32, 4.2), (64, 4.2)):
        assert service.batch_s(calls) == pytest.approx(took_s)
    for _ in range(50):  # it has become slower
        service.computed(16, 5.0)
    assert service.batch_s(16) == pytest.approx(5.0, rel=0.01)
