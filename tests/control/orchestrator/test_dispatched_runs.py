"""Runs whose next call is known by the runs before them, and services that fail while they load."""

from pathlib import Path

from control.db.database import Database
from policies.workflows.call_dispatch import DispatchName
from policies.workflows.dispatches import DISPATCHES
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


@medley.workflow
async def fragile(number: int) -> int:
    return await Fragile(number)


@medley.workflow
async def chain(wait: bool) -> tuple[str, bool, str]:
    first = First(wait)
    process, was_loaded = await first
    return process, was_loaded, await Second(first)
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


def test_a_process_that_dies_while_it_loads_leaves_no_call_uncertain(database: Database, tmp_path: Path) -> None:
    world = World(database)
    world.push(APP.replace("FOLDER", str(tmp_path)))
    with world.orchestrator():
        assert world.answer(world.start("fragile", number=7)) == 7
    assert (tmp_path / "loads").read_text() == "xxx"
