"""Runs as an orchestrator executes them: their code, their calls, and how they end."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.actions.refusal import WrongFieldError
from control.actions.workflows import cancel_run, resume_run, send_signal
from control.db.database import Database, open_database
from control.db.errors import InUseError, NotStoredError
from control.runs.record import CallState
from control.runs.run_state import RunState
from control.runs.shown import emitted
from tests.control.orchestrator.world import World


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    """With one orchestrator for the tests of this file."""
    with open_database(module_database_url, connections=40) as database:
        made = World(database)
        made.push()
        with made.orchestrator():
            yield made


def test_handles_go_from_service_to_service_and_the_journal_has_every_call(world: World) -> None:
    run = world.start("doubled", start=3)
    assert world.answer(run) == 24
    calls = world.runs.calls(run)
    assert [call.call.takes for call in calls] == [(), ("1",), ("2",)]
    assert [call.seq for call in calls] == [1, 2, 3]
    assert all(call.state is CallState.DONE and call.started_at and call.ended_at for call in calls)


def test_calls_of_several_runs_are_computed_in_one_batch(world: World, tmp_path: Path) -> None:
    file = tmp_path / "go"
    runs = [world.start("fanned", file=str(file), width=6) for _ in range(3)]
    for run in runs:
        world.until(run, lambda run: bool(emitted(world.runs.calls(run.id))))
    file.touch()  # one batch may be under way; all other calls wait in the queue
    sizes = [size for run in runs for size in world.answer(run)]
    assert max(sizes) == 8  # 18 calls of three runs: no run has more than 6


def test_a_signal_and_what_is_emitted(world: World, tmp_path: object) -> None:
    run = world.start("approved", file=f"{tmp_path}/ledger")
    waiting = world.until(run, lambda run: run.state is RunState.WAITING)
    assert waiting.wake_at is not None
    assert emitted(world.runs.calls(run)) == [{"asked": "may I?"}]
    send_signal(world.act(), run, "another", 1)
    send_signal(world.act(), run, "approved", True)
    assert world.answer(run) == "done"


def test_time_outs_of_signals_and_sleeps(world: World) -> None:
    assert world.answer(world.start("late", seconds=0.01)) == "nobody said None"


@pytest.mark.parametrize(("number", "said"), [(1, "no such number"), (8, "0 results for 1 calls"), (7, "exit code 3")])
def test_a_service_that_fails_is_an_error_of_its_call(world: World, number: int, said: str) -> None:
    answer = world.answer(world.start("careful", number=number))
    assert "service Faulty" in answer
    assert said in answer
    run = world.ended(world.start("careless", number=number))
    assert run.state is RunState.FAILED
    assert said in run.reason
    assert "app.py:" in run.reason


def test_what_a_service_that_raised_has_changed_is_uncertain_and_not_repeated(world: World, tmp_path: Path) -> None:
    run = world.start("breaks", file=str(tmp_path / "ledger"))
    assert world.ended(run).state is RunState.UNCERTAIN
    with pytest.raises(InUseError):
        resume_run(world.act(), run, {})
    resume_run(world.act(), run, {"1": b"\x07"})
    assert world.answer(run) == 7
    assert (tmp_path / "ledger").read_text() == "done\n"


def test_a_run_whose_calls_wait_for_a_signal_waits_itself(world: World) -> None:
    run = world.start("depends")
    world.until(run, lambda run: run.state is RunState.WAITING)
    send_signal(world.act(), run, "number", 4)
    assert world.answer(run) == 8


def test_an_answer_that_json_does_not_have_is_shown_as_text(world: World) -> None:
    assert world.answer(world.start("pairs")) == {"(1, 2)": "a"}


def test_large_results_are_stored_apart_and_given_to_who_takes_them(world: World) -> None:
    run = world.start("large", size=3 << 20)
    assert world.answer(run) == [3 << 20, 3 << 20]
    assert [bool(call.blob) for call in world.runs.calls(run)] == [True, False]
    too_large = world.ended(world.start("large", size=17 << 20))
    assert too_large.state is RunState.FAILED
    assert "Large" in too_large.reason


def test_a_run_that_is_not_durable_leaves_no_calls(world: World) -> None:
    run = world.start("light", start=5)
    assert world.answer(run) == 20
    assert world.runs.calls(run) == []


def test_a_deadline_and_a_cancel_end_a_run_each_in_its_own_way(world: World) -> None:
    late = world.start("too_late")
    cancelled = world.start("late", seconds=4.0)
    world.until(cancelled, lambda run: run.state is RunState.RUNNING)
    cancel_run(world.act(), cancelled)
    waiting = world.start("late", seconds=1000.0)
    world.until(waiting, lambda run: run.state is RunState.WAITING)
    cancel_run(world.act(), waiting)
    assert world.ended(late).state is RunState.EXPIRED
    assert world.ended(cancelled).state is RunState.CANCELLED
    assert world.ended(waiting).state is RunState.CANCELLED


def test_code_that_has_no_end_fails_its_run(database: Database) -> None:
    own = World(database)
    own.push()
    with own.orchestrator(step_s=0.5):
        run = own.ended(own.start("has_no_end"))
    assert run.state is RunState.FAILED


def test_wrong_names_and_arguments_are_refused_with_the_nearest(world: World) -> None:
    with pytest.raises(NotStoredError, match="doubled"):
        world.start("dobled", start=1)
    with pytest.raises(WrongFieldError, match="start"):
        world.start("doubled", stat=1)
    with pytest.raises(WrongFieldError, match="start"):
        world.start("doubled")
    run = world.ended(world.start("doubled", start="three"))
    assert run.state is RunState.FAILED


@pytest.mark.needs("root")
def test_code_has_no_network_and_nothing_of_the_orchestrators_environment(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_SECRET", "it is one")
    own = World(database)
    own.push()
    with socket.create_server(("127.0.0.1", 0)) as server, own.orchestrator(needs_isolation=True):
        code, service, reaches = own.answer(own.start("isolated", port=server.getsockname()[1]))
    assert (code["network"], service["network"], reaches["network"]) == ("OSError", "OSError", "reached")
    assert all("SECRET" not in each["environment"] for each in (code, service, reaches))


@pytest.mark.needs("user-namespaces")
def test_code_cannot_read_the_memory_of_what_started_it(world: World) -> None:
    answers = world.answer(world.start("isolated", port=1))
    assert [each["parent"] for each in answers] == ["PermissionError"] * 3
