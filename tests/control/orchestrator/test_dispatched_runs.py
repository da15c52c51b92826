"""Runs whose next call is known by the runs before them, and services that fail while they load."""

import socket
from pathlib import Path

from control.actions.workflows import send_signal
from control.db.database import Database
from control.db.runs import PostgresRuns
from control.orchestrator.call_places import MOST_TOGETHER
from control.runs.record import path_order
from policies.workflows.call_dispatch import DispatchName
from policies.workflows.dispatches import DISPATCHES
from tests.control.orchestrator.apps import GOOD
from tests.control.orchestrator.world import PATIENCE_S, World

APP = f"""
import os
import time

import medley_sdk as medley

PROCESS = os.urandom(8).hex()
FILE = "FOLDER/second"


@medley.service
class First:
    # Ends once some process has loaded Second, where it is told to wait for that.

    def __call__(self, waits: list[bool]) -> list[tuple[str, bool]]:
        give_up_s = time.monotonic() + {PATIENCE_S}
        while any(waits) and not os.path.exists(FILE) and time.monotonic() < give_up_s:
            time.sleep(0.005)
        return [(PROCESS, os.path.exists(FILE)) for _ in waits]


@medley.service
class Second:
    def __init__(self) -> None:
        with open(FILE, "w") as file:
            file.write(PROCESS)

    def __call__(self, firsts: list[tuple[str, bool]]) -> list[str]:
        return [PROCESS for _ in firsts]


@medley.service(effects="external")
class Fragile:
    # Twice its process ends while it loads.

    def __init__(self) -> None:
        with open("FOLDER/loads", "a") as file:
            file.write("x")
        if os.path.getsize("FOLDER/loads") < 3:
            os._exit(3)

    def __call__(self, numbers: list[int]) -> list[int]:
        return numbers


if os.path.exists("FOLDER/later"):

    @medley.service
    class Late:
        def __call__(self, numbers: list[int]) -> list[int]:
            return numbers


@medley.workflow
async def late() -> str:
    try:
        await Late(1)
    except medley.CallError as error:
        return str(error)
    return "computed"


@medley.workflow
async def fragile(number: int) -> int:
    return await Fragile(number)


@medley.workflow
async def chain(wait: bool) -> tuple[str, bool, str]:
    first = First(wait)
    process, was_loaded = await first
    return process, was_loaded, await Second(first)


@medley.workflow
async def interrupted() -> str:
    first = First(False)
    await first
    await medley.signal("go on", timeout_s=3600)
    return await Second(first)
"""


def test_the_second_run_of_a_chain_is_placed_by_prediction(database: Database, tmp_path: Path) -> None:
    """An orchestrator that knows of the first run by the journal alone loads `Second` in another process while `First`
    is computed: that ends no sooner."""
    world, speculative = World(database), DISPATCHES[DispatchName.SPECULATIVE]
    world.push(APP.replace("FOLDER", str(tmp_path)))
    with world.orchestrator(places=2, dispatch=speculative()):
        _, was_loaded, _ = world.answer(world.start("chain", wait=False))
    assert not was_loaded, "nothing was known"
    (tmp_path / "second").unlink()
    with world.orchestrator(places=2, dispatch=speculative()):
        first, was_loaded, second = world.answer(world.start("chain", wait=True))
    assert was_loaded
    assert (tmp_path / "second").read_text() == second != first


def test_what_follows_is_loaded_on_the_only_place_while_nothing_is_computed(database: Database, tmp_path: Path) -> None:
    world, speculative = World(database), DISPATCHES[DispatchName.SPECULATIVE]
    world.push(APP.replace("FOLDER", str(tmp_path)))
    file = tmp_path / "second"
    for is_known in (False, True):
        with world.orchestrator(dispatch=speculative(), park_s=3600.0):
            run = world.start("interrupted")
            if is_known:
                world.until(run, lambda _: file.exists())
            send_signal(world.act(), run, "go on", None)
            process = world.answer(run)
        assert file.read_text() == process
        file.unlink()


def test_a_service_that_code_has_only_when_it_is_loaded_again_is_refused(database: Database, tmp_path: Path) -> None:
    world = World(database)
    world.push(APP.replace("FOLDER", str(tmp_path)))
    with world.orchestrator():
        world.answer(world.start("chain", wait=False))
        (tmp_path / "later").touch()
        assert "Late" in world.answer(world.start("late"))
        world.answer(world.start("chain", wait=False))


def test_a_process_that_dies_while_it_loads_leaves_no_call_uncertain(database: Database, tmp_path: Path) -> None:
    world = World(database)
    world.push(APP.replace("FOLDER", str(tmp_path)))
    with world.orchestrator():
        assert world.answer(world.start("fragile", number=7)) == 7
    assert (tmp_path / "loads").read_text() == "xxx"


def test_runs_of_every_shape_end_right_where_they_are_placed_by_prediction(database: Database, tmp_path: Path) -> None:
    """Chains of handles, more calls at once than are placed together, effects, and services with a network: at the same
    time, and again when all of them are known."""
    world = World(database)
    world.push(GOOD)
    (tmp_path / "go").touch()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        world.orchestrator(places=2, dispatch=DISPATCHES[DispatchName.SPECULATIVE]()),
    ):
        for ledger in (tmp_path / "first", tmp_path / "second"):
            chain = world.start("doubled", start=1, times=20)
            fan = world.start("fanned", file=str(tmp_path / "go"), width=2 * MOST_TOGETHER + 1)
            notes = world.start("twelve", file=str(ledger))
            reach = world.start("isolated", port=server.getsockname()[1])
            assert world.answer(chain) == 2**20
            sizes = world.answer(fan)
            assert len(sizes) == 2 * MOST_TOGETHER + 1
            assert max(sizes) <= 8
            assert world.answer(notes) == 10
            assert sorted(line.split()[0] for line in ledger.read_text().splitlines()) == list("abcd")
            assert world.answer(reach)[2]["network"] == "reached"
    made = PostgresRuns(database).made
    for calls in made("p", "fanned", 2, 1000):
        assert [call.path for call in calls] == sorted((call.path for call in calls), key=path_order)
    ((*first,),) = made("p", "fanned", 1, 12)
    assert first == made("p", "fanned", 1, 1000)[0][:12]
