"""Whatever dies, every run ends, and what changes something outside is done once."""

import ctypes
import signal
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from sqlalchemy import update

from control.actions.workflows import resume_run
from control.db.database import Database
from control.db.run_journal import RunJournal
from control.db.run_tables import workflow_run
from control.orchestrator.code_process import RUNNER, WORKER
from control.runs.record import CallState
from control.runs.run_state import OPEN, RunState
from tests.control.orchestrator.process import KILLED, children
from tests.control.orchestrator.world import PATIENCE_S, World
from tests.forked import Forked

ANSWER = 10
LINES = "abcd"
PROCESS = "tests.control.orchestrator.process"
_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True, scope="module")
def _orphans_are_ours() -> None:
    """What an orchestrator leaves behind when it is killed becomes this process's child: so its end can be waited
    for."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def orphans_gone() -> None:
    """Wait until no process of an orchestrator that was killed writes into a ledger any more. No orchestrator of this
    process is there meanwhile: its workers would be waited for too."""
    _, alive = psutil.wait_procs(children(WORKER), PATIENCE_S)
    assert not alive


def lease_runs_out(world: World) -> None:
    """As if time had passed: a lease that is short by the clock runs out on a busy machine where nobody died."""
    gone = world.clock().replace(year=2000)
    world.database.write(update(workflow_run).where(workflow_run.c.state == "running").values(lease_until=gone))


def lines(ledger: Path) -> Counter[str]:
    """Line → times that it was written, by its call's id."""
    return Counter(ledger.read_text().split("\n")[:-1]) if ledger.exists() else Counter()


def settled_by_hand(world: World, run: str, ledger: Path) -> None:
    """What an operator does: look what became of calls that are uncertain, and say so."""
    found = world.runs.load(run)
    if found.state is not RunState.UNCERTAIN:
        return
    written = {line.split()[1] for line in lines(ledger)}
    uncertain = [
        call.call.path
        for call in world.runs.calls(run)
        if call.state is CallState.FAILED and call.failure and call.failure.kind == "uncertain"
    ]
    assert uncertain
    resolved = {path: b"\x00" if f"{run}/{path}" in written else None for path in uncertain}
    resume_run(world.act(), run, resolved)


def check(world: World, run: str, ledger: Path) -> None:
    assert world.answer(run) == ANSWER
    written = lines(ledger)
    assert sorted(line.split()[0] for line in written) == list(LINES), written
    assert set(written.values()) == {1}
    calls = world.runs.calls(run)
    assert len(calls) == 12
    assert all(call.state is CallState.DONE for call in calls)
    assert len({call.seq for call in calls}) == 12


def killed_at(world: World, database_url: str, ledger: Path, place: str, record: int, victim: str) -> bool:
    """Kill at a record, and have others end the run. False: nothing was killed, as there is no such record."""
    run = world.start("twelve", file=str(ledger))
    first = Forked(PROCESS, [database_url, place, record, victim])
    if victim == "orchestrator":
        give_up_s = time.monotonic() + PATIENCE_S
        while first.poll() is None and world.runs.load(run).state in OPEN:
            assert time.monotonic() < give_up_s
            time.sleep(0.002)
    else:
        world.ended(run)
    first.terminate()
    was_killed = first.wait() == (-signal.SIGKILL if victim == "orchestrator" else KILLED)
    orphans_gone()
    lease_runs_out(world)
    if world.runs.load(run).state in OPEN or world.runs.load(run).state is RunState.UNCERTAIN:
        with world.orchestrator():
            world.ended(run)
            settled_by_hand(world, run, ledger)
            world.ended(run)
    check(world, run, ledger)
    return was_killed


@pytest.mark.parametrize(
    ("place", "record", "victim"),
    [("after", 4, "orchestrator"), ("after", 2, "runner")],
)
def test_a_run_ends_right_whatever_is_killed(
    database: Database, database_url: str, tmp_path: Path, place: str, record: int, victim: str
) -> None:
    world = World(database)
    world.push()
    assert killed_at(world, database_url, tmp_path / "ledger", place, record, victim)


MOST_RECORDS = 60


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_run_ends_right_at_whichever_record_its_orchestrator_is_killed(
    database: Database, database_url: str, tmp_path: Path, place: str
) -> None:
    world = World(database)
    world.push()
    for record in range(1, MOST_RECORDS):
        if not killed_at(world, database_url, tmp_path / f"ledger{record}", place, record, "orchestrator"):
            break  # there is no such record any more
    assert 15 < record < MOST_RECORDS  # the intents of its steps, 12 outcomes, and its end


@pytest.mark.slow
def test_a_run_ends_right_at_whichever_record_its_code_is_killed(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    world = World(database)
    world.push()
    for record in range(1, 24, 3):
        place = ("before", "after")[record % 2]
        killed_at(world, database_url, tmp_path / f"ledger{record}", place, record, "runner")


def lose(world: World, times: int) -> None:
    """Have orchestrators take the run, and die before they do anything."""
    for _ in range(times):
        assert RunJournal(world.database).claim("lost", world.clock(), timedelta(0)) is not None
        lease_runs_out(world)


def test_a_run_is_not_to_blame_for_orchestrators_that_are_lost_and_for_kills_of_its_process(
    database: Database, tmp_path: Path
) -> None:
    world, ledger, killed = World(database), tmp_path / "ledger", set[int]()
    world.push()
    run = world.start("twelve", file=str(ledger))
    lose(world, 3)
    give_up_s = time.monotonic() + PATIENCE_S
    with world.orchestrator(most_restarts=1, most_pause_s=0.01):
        while len(killed) < 4 and world.runs.load(run).state in OPEN:
            assert time.monotonic() < give_up_s
            for each in children(RUNNER):
                if each.pid not in killed:
                    with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                        each.kill()
                        killed.add(each.pid)
            time.sleep(0.002)
        check(world, run, ledger)


def test_a_run_fails_that_is_lost_too_often_and_one_whose_code_ends_its_process(
    database: Database, tmp_path: Path
) -> None:
    world, ledger = World(database), tmp_path / "ledger"
    world.push()
    run = world.start("twelve", file=str(ledger))
    lose(world, 3)
    with world.orchestrator(most_kills=2):
        assert world.ended(run).state is RunState.FAILED
        resume_run(world.act(), run, {})  # once what kills has ended
        check(world, run, ledger)
    world.push("import os\nfrom medley_sdk import workflow\n\n\n"
               "@workflow\nasync def exits() -> None:\n    os._exit(3)\n")  # fmt: skip
    with world.orchestrator(most_restarts=1):
        assert world.ended(world.start("exits")).state is RunState.FAILED


KILLS, AT_ONCE = 200, 4


@pytest.mark.slow
def test_random_kills_of_orchestrators_code_and_services(database: Database, database_url: str, tmp_path: Path) -> None:
    world, letters = World(database), tmp_path / "killed"
    world.push()
    letters.touch()
    runs, open_ = dict[str, Path](), list[str]()
    command = [database_url, "chance", "26", letters]
    process, give_up_s = Forked(PROCESS, command), time.monotonic() + 10 * PATIENCE_S
    while len(letters.read_text()) < KILLS:
        assert time.monotonic() < give_up_s
        if process.poll() is not None:
            orphans_gone()
            lease_runs_out(world)
            process = Forked(PROCESS, command)
        open_ = [run for run in open_ if world.runs.load(run).state not in (RunState.DONE, RunState.FAILED)]
        for run in open_:
            settled_by_hand(world, run, runs[run])
        for _ in range(AT_ONCE - len(open_)):
            ledger = tmp_path / f"ledger{len(runs)}"
            open_.append(run := world.start("twelve", file=str(ledger)))
            runs[run] = ledger
        time.sleep(0.02)
    process.kill()
    process.wait()
    orphans_gone()
    lease_runs_out(world)
    with world.orchestrator():
        for run, ledger in runs.items():
            while world.ended(run).state is RunState.UNCERTAIN:
                settled_by_hand(world, run, ledger)
            check(world, run, ledger)
    assert set(letters.read_text()) == set("orw")
