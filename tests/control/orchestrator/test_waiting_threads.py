"""Threads that wait for answers."""

import threading

from control.orchestrator.waiting_threads import WaitingThreads


def test_as_much_runs_at_the_same_time_as_may_and_the_rest_has_its_turn() -> None:
    threads, both = WaitingThreads(2), threading.Barrier(2, timeout=60)
    done = threading.Semaphore(0)

    def work() -> None:
        both.wait()  # passes only while another one runs too
        done.release()

    for _ in range(50):
        threads.submit(work)
    assert all(done.acquire(timeout=60) for _ in range(50))
    for _ in range(2):  # both threads wait for work now, or will
        threads.submit(work)
    assert all(done.acquire(timeout=60) for _ in range(2))
