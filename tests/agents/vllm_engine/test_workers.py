"""What is said of processes that compute for vLLM, once they end."""

import multiprocessing
import os
import queue
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from agents.engines.errors import OutOfMemoryError, RankLostError
from agents.messages.to_hub import OUT_OF_MEMORY
from agents.vllm_engine.workers import Workers, told_memory

Process = multiprocessing.get_context("fork").Process


def started(*ends: float) -> tuple[Workers, list]:
    """Processes, each of which ends with status 3 after so many seconds."""
    processes = [Process(target=lambda s=s: (time.sleep(s), sys.exit(3)), daemon=True) for s in ends]
    for process in processes:
        process.start()
    return Workers(SimpleNamespace(workers=[SimpleNamespace(proc=process) for process in processes])), processes


@pytest.mark.parametrize(("number", "is_memory"), [(signal.SIGKILL, True), (signal.SIGTERM, False)])
def test_a_process_that_is_killed_is_named_with_what_may_have_done_it(number: int, is_memory: bool) -> None:
    workers, (_, second) = started(60, 60)
    lost: queue.Queue[Exception] = queue.Queue()
    workers.watch(lost.put)
    assert second.pid is not None
    os.kill(second.pid, number)
    error = lost.get(timeout=30)
    assert isinstance(error, RankLostError)
    assert "worker 1" in str(error)
    assert (OUT_OF_MEMORY in str(error)) == is_memory


def test_an_error_that_a_process_which_ended_has_caused_is_told_as_that() -> None:
    workers, processes = started(0, 60)
    processes[0].join(30)
    caused = workers.cause(RuntimeError("cancelled"))
    assert isinstance(caused, RankLostError)
    assert "worker 0" in str(caused)
    assert "status 3" in str(caused)


def test_an_error_of_workers_that_all_live_is_itself() -> None:
    workers, _ = started(60)
    error = RuntimeError("no such layer")
    assert workers.cause(error) is error
    assert isinstance(workers.cause(RuntimeError("CUDA out of memory")), OutOfMemoryError)


@pytest.mark.parametrize(
    ("text", "is_memory"),
    [
        ("Worker failed with error 'CUDA out of memory. Tried to allocate 2.00 GiB.'", True),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes", True),
        ("Worker failed with error 'no such layer'", False),
    ],
)
def test_an_error_of_another_process_is_known_as_one_of_memory_by_what_it_says(text: str, is_memory: bool) -> None:
    assert isinstance(told_memory(RuntimeError(text)), OutOfMemoryError) == is_memory
