"""Files that one process at a time may hold."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from control.file_lock import lock, try_lock, turn, unlock

_HOLDER = """
import sys
from pathlib import Path
from control.file_lock import turn
with turn(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_turns_come_one_after_the_other(tmp_path: Path) -> None:
    inside, met = [0], []

    def take(_: int) -> None:
        with turn(tmp_path / "lock"):
            inside[0] += 1
            met.append(inside[0])
            inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, range(200)))
    assert met == [1] * 200


def test_a_file_that_is_held_is_not_had_until_it_is_let_go(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("ab") as file:
        with turn(tmp_path / "lock"):
            assert not try_lock(file)
        assert try_lock(file)


def test_those_who_share_do_not_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("ab") as one, path.open("ab") as other:
        lock(one, shared=True)
        lock(other, shared=True)
        assert not try_lock(one)
        unlock(other)
        assert try_lock(one)


def test_what_a_killed_process_held_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with path.open("ab") as file:
            assert not try_lock(file)
        holder.kill()
    with turn(path):
        pass
