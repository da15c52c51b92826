"""Which calls are computed together."""

from control.orchestrator.service_queue import Queued, ServiceQueue


def test_calls_of_a_run_that_is_over_are_not_computed() -> None:
    over: set[str] = set()
    queue = ServiceQueue({"s": 8, "t": 1})
    for run, service in (("a", "s"), ("b", "t"), ("b", "t"), ("c", "s")):
        queue.add(Queued(f"{run}/1", service, b"", lambda _: None, lambda run=run: run in over))
    over.add("a")
    assert [call.call for call in queue.batch()] == ["b/1"]
    over.add("b")
    assert [call.call for call in queue.batch()] == ["c/1"]
    assert queue.batch() == []
    assert len(queue) == 0
