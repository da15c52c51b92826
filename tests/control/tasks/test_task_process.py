"""The process of tasks: whatever code does, who asks gets an answer in time, and the next who asks does, too."""

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from control.gateway.api_error import task_failed
from control.tasks.failure import TaskFailedError
from control.tasks.task_process import TaskProcess
from medley_sdk.messages import Limits, RecordOne
from medley_sdk.values import Record, Signature
from tests.control.db.processes import wait_until
from tests.control.tasks.files import BAD, source

TEXT = Signature("text")


@pytest.fixture(scope="module")
def bad() -> Iterator[TaskProcess]:
    with TaskProcess(source(BAD), limits=Limits(memory_mib=256)) as process:
        yield process


def record(process: TaskProcess, task: str) -> Record:
    (found,) = process.ask(RecordOne(task, TEXT)).records
    return found


@pytest.mark.parametrize(
    ("task", "named"),
    [
        ("raises", r"tasks.py:17: .*ZeroDivisionError"),
        ("calls_for_ever", r"tasks.py:\d+"),
        ("takes_memory", r"tasks.py:\d+: .*memory"),
        ("exits", r"tasks.py:\d+: .*SystemExit"),
        ("dies", "exit code 3"),
        ("has_no_end", r"tasks.py"),
        ("talks_over", r"tasks.py"),
        ("nobody", "fine"),
    ],
)
def test_code_that_fails_is_an_error_with_its_place_and_the_next_request_is_served(
    bad: TaskProcess, task: str, named: str
) -> None:
    with pytest.raises(TaskFailedError, match=named) as caught:
        record(bad, task)
    assert (task_failed("vl").status, task_failed("vl").code) == (500, caught.value.code)
    assert [call.unit.name for call in record(bad, "fine").calls] == ["language"]


def test_code_sees_no_secret(bad: TaskProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDLEY_TEST_SECRET", "between us")
    bad.close()
    assert b"between us" not in record(bad, "tells_its_environment").calls[0].given


def test_what_code_has_started_ends_with_it() -> None:
    """Root may start processes whatever the limit, and they hold the pipes open."""
    text = """
import os, time
try:
    child = os.fork()
except OSError:
    child = 1
if not child:
    time.sleep(600)
"""
    with TaskProcess(source(text)) as process:
        assert process.tasks() == ()
        group = process.pid
    assert group is not None
    wait_until(lambda: not alive_in(group))  # nobody waits for the grandchild but init


def alive_in(group: int) -> list[int]:
    """Processes of a group."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(each.pid) == group and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
    return found


def test_code_writes_into_no_file(tmp_path: Path) -> None:
    file = tmp_path / "written"
    with TaskProcess(source(f"open({str(file)!r}, 'w').write('x' * 100_000)")) as process:
        with pytest.raises(TaskFailedError):
            process.tasks()
        assert file.read_text() == ""


def test_a_process_that_was_killed_is_started_again(bad: TaskProcess) -> None:
    assert record(bad, "fine")
    before = bad.pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: len(record(bad, "fine").calls), range(20))) == [1] * 20
    assert bad.pid != before


def test_nothing_is_left_of_a_process_that_is_closed(bad: TaskProcess) -> None:
    assert record(bad, "fine")
    pid = bad.pid
    assert pid is not None
    bad.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("text", ["import", "import no_such_module", "raise ValueError('not now')"])
def test_a_file_that_does_not_load_is_an_error_with_its_line(text: str) -> None:
    with TaskProcess(source(f"\n{text}\n")) as process, pytest.raises(TaskFailedError, match=r"tasks\.py:2"):
        process.tasks()
