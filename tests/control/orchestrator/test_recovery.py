"""Runs that are taken up again: by their journal, with their own code, by one orchestrator at a time."""

import threading
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select

from control.actions.workflows import cancel_run, resume_run, send_signal
from control.db.database import Database
from control.db.errors import DeposedError, InUseError
from control.db.run_journal import RunJournal
from control.db.run_tables import workflow_run
from control.runs.record import CallRecord, CallState, Settled
from control.runs.run_state import RunState
from medley_sdk.flows.messages import CallKind, Effects, FlowCall
from tests.control.orchestrator.world import PATIENCE_S, World

VERSIONS = """
import os
import time

import medley_sdk as medley


@medley.service
class Same:
    def __call__(self, numbers: list[int]) -> list[int]:
        return numbers


@medley.service(effects="external")
class Slow:
    # Ends once there is a file beside its ledger.

    def __call__(self, files: list[str]) -> list[str]:
        for file in files:
            with open(file, "a") as ledger:
                ledger.write("begun\\n")
        while not all(os.path.exists(f"{file}.go") for file in files):
            time.sleep(0.005)
        return files


@medley.workflow
async def steady(number: int) -> str:
    await Same(number)
    await medley.signal("go")
    return "VERSION"


@medley.workflow
async def random_calls() -> None:
    await Same(int.from_bytes(os.urandom(6), "big"))
    await medley.signal("go")


@medley.workflow
async def slow(file: str) -> str:
    return await Slow(file)
"""
LEASE = timedelta(seconds=15)


@pytest.fixture
def world(database: Database) -> World:
    made = World(database)
    made.push(VERSIONS)
    return made


def test_a_run_keeps_the_code_that_it_began_with(world: World) -> None:
    with world.orchestrator():
        old = world.start("steady", number=1)
        world.until(old, lambda run: run.state is RunState.WAITING)
        world.push(VERSIONS.replace("VERSION", "another").replace("await Same(number)", "pass"))
        new = world.start("steady", number=1)
        for run in (old, new):
            send_signal(world.act(), run, "go", None)
        assert (world.answer(old), world.answer(new)) == ("VERSION", "another")


def test_code_that_calls_another_thing_when_it_is_executed_again_fails_its_run(world: World) -> None:
    with world.orchestrator():
        run = world.start("random_calls")
        world.until(run, lambda run: run.state is RunState.WAITING)
        send_signal(world.act(), run, "go", None)
        found = world.ended(run)
    assert found.state is RunState.FAILED
    assert "call 1 is service Same" in found.reason


def test_an_orchestrator_that_ends_waits_for_calls_with_effects_and_hands_its_runs_back(
    world: World, tmp_path: Path
) -> None:
    ledger, row = tmp_path / "ledger", workflow_run.c
    held = select(row.lease_until)

    def end_when_renewed(before: object) -> None:
        while world.database.read_column(held) == before:
            time.sleep(0.005)
        Path(f"{ledger}.go").touch()

    with world.orchestrator(lease=timedelta(hours=9)):  # so that nothing but its end renews it
        run = world.start("slow", file=str(ledger))
        world.until(run, lambda _: ledger.exists())
        ending = threading.Thread(target=end_when_renewed, args=(world.database.read_column(held),), daemon=True)
        ending.start()
    ending.join(PATIENCE_S)
    assert world.runs.load(run).state is RunState.QUEUED
    with world.orchestrator():
        assert world.answer(run) == str(ledger)
    assert ledger.read_text() == "begun\n"


def test_who_lost_a_run_writes_nothing_and_outcomes_are_recorded_once(world: World) -> None:
    journal, now = RunJournal(world.database), world.clock()
    ids = {world.start("steady", number=number) for number in range(2)}
    first, second = journal.claim("a", now, LEASE), journal.claim("b", now, LEASE)
    assert first is not None
    assert second is not None
    assert {first.id, second.id} == ids
    assert journal.claim("c", now, LEASE) is None
    call = FlowCall("1", CallKind.SERVICE, "Same", b"\x92\x90\x80", effects=Effects.EXTERNAL)
    journal.intend(first, [CallRecord(call, now, started_at=now)], (), now)
    assert journal.renew([(first.id, first.epoch), (second.id, second.epoch + 1)], now, LEASE) == {first.id}
    later = now + 2 * LEASE
    taken = journal.claim("c", later, LEASE)
    assert taken is not None
    assert (taken.id, taken.epoch, taken.restarts) == (first.id, first.epoch + 1, 1)
    for write in (
        lambda: journal.settle(first, Settled("1", 1, b"\x01"), later),
        lambda: journal.intend(first, [CallRecord(replace_path(call, "2"), now)], (), later),
        lambda: journal.end(first, RunState.DONE, later),
        lambda: journal.park(first, [], None),
    ):
        with pytest.raises(DeposedError):
            write()
    journal.settle(taken, Settled("1", 1, b"\x01"), later)
    journal.settle(taken, Settled("1", 2, b"\x02"), later)
    (found,) = journal.calls(taken)
    assert (found.state, found.seq, found.value) == (CallState.DONE, 1, b"\x01")
    assert world.runs.load(taken.id).restarts == 0


def test_an_orchestrator_does_not_take_its_own_runs_again_and_a_cancel_is_not_parked(world: World) -> None:
    journal, now = RunJournal(world.database), world.clock()
    run = world.start("steady", number=1)
    held = journal.claim("a", now, LEASE)
    assert held is not None
    late = now + 2 * LEASE
    assert journal.claim("a", late, LEASE, [run]) is None
    assert journal.renew([(run, held.epoch)], late, LEASE) == {run}
    cancel_run(world.act(), run)
    assert not journal.park(held, ["go"], None)
    journal.end(held, RunState.FAILED, late)
    assert not resume_run(world.act(), run, {}).cancel_asked


def test_an_uncertain_call_has_to_be_resolved_before_its_run_goes_on(world: World) -> None:
    journal, now = RunJournal(world.database), world.clock()
    world.start("slow", file="/dev/null")
    run = journal.claim("a", now, timedelta(0))
    assert run is not None
    call = FlowCall("1", CallKind.SERVICE, "Slow", b"\x92\x90\x81\xa5files\xa9/dev/null", effects=Effects.EXTERNAL,
                    timeout_s=600.0)  # fmt: skip
    journal.intend(run, [CallRecord(call, now, started_at=now)], (), now)
    with world.orchestrator():
        assert world.ended(run.id).state is RunState.UNCERTAIN
        for wrong in ({}, {"2": None}, {"1": None, "2": None}):
            with pytest.raises(InUseError):
                resume_run(world.act(), run.id, wrong)
        resume_run(world.act(), run.id, {"1": b"\xa4done"})
        assert world.answer(run.id) == "done"


CAUGHT = """
import os

import medley_sdk as medley


@medley.service
class Needs:
    def __call__(self, files: list[str]) -> list[int]:
        return [os.path.getsize(file) for file in files]


@medley.service(effects="external")
class Note:
    def __call__(self, files: list[str]) -> list[int]:
        for file in files:
            with open(file, "a") as ledger:
                ledger.write("noted\\n")
        return [len(files)]


@medley.workflow
async def has_another_way(folder: str) -> int:
    try:
        await Needs(f"{folder}/first")
    except medley.CallError:
        await Note(f"{folder}/ledger")
    return await Needs(f"{folder}/second")


@medley.service(effects="external")
class Loses:
    def __call__(self, files: list[str]) -> list[str]:
        for file in files:
            with open(file, "a") as ledger:
                ledger.write("noted\\n")
        raise OSError("the answer is lost")


@medley.workflow
async def takes_what_is_lost(folder: str) -> int:
    try:
        return await Needs(Loses(f"{folder}/ledger"))
    except medley.CallError:
        return await Needs(f"{folder}/second")


@medley.workflow
async def goes_on_without(folder: str) -> int:
    found = []
    try:
        found.append(await Needs(f"{folder}/first"))
    except medley.CallError:
        pass
    return found[0]
"""


def states(world: World, run: str) -> list[tuple[CallState, bool]]:
    return [(call.state, call.caught) for call in world.runs.calls(run)]


def test_failures_that_the_code_caught_are_left_alone_unless_they_are_named(world: World, tmp_path: Path) -> None:
    world.push(CAUGHT)
    done, failed, caught = (CallState.DONE, False), (CallState.FAILED, False), (CallState.FAILED, True)
    with world.orchestrator():
        first, second = (world.start(name, folder=str(tmp_path)) for name in ("has_another_way", "goes_on_without"))
        assert {world.ended(run).state for run in (first, second)} == {RunState.FAILED}
        assert states(world, first) == [caught, done, failed]
        assert states(world, second) == [caught]
        for name in ("first", "second"):
            (tmp_path / name).write_text(name)
        resume_run(world.act(), first, {})
        assert world.answer(first) == len("second")
        assert [state for state, _ in states(world, first)] == [CallState.FAILED, CallState.DONE, CallState.DONE]
        assert (tmp_path / "ledger").read_text() == "noted\n"
        resume_run(world.act(), second, {})
        assert world.ended(second).state is RunState.FAILED
        for wrong in ({"1": b"\x05"}, {"2": None}):
            with pytest.raises(InUseError):
                resume_run(world.act(), second, wrong)
        resume_run(world.act(), second, {"1": None})
        assert world.answer(second) == len("first")


def test_an_uncertain_call_is_not_started_again_with_what_takes_its_result_unless_it_is_said(
    world: World, tmp_path: Path
) -> None:
    world.push(CAUGHT)
    uncertain = (CallState.FAILED, True)
    with world.orchestrator():
        run = world.start("takes_what_is_lost", folder=str(tmp_path))
        assert world.ended(run).state is RunState.FAILED
        assert states(world, run) == [uncertain, uncertain, (CallState.FAILED, False)]
        for wrong in ({"2": None}, {"2": b"\x05"}):
            with pytest.raises(InUseError):
                resume_run(world.act(), run, wrong)
        assert (tmp_path / "ledger").read_text() == "noted\n"
        resume_run(world.act(), run, {"1": msgspec.msgpack.encode(str(tmp_path / "ledger")), "2": None})
        assert world.answer(run) == len("noted\n")


def replace_path(call: FlowCall, path: str) -> FlowCall:
    return FlowCall(path, call.kind, call.target, call.given)
