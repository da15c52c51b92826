"""Which calls are computed together."""

from control.orchestrator.service_queue import Queued, ServiceQueue


def batch(queue: ServiceQueue) -> list[str]:
    service = queue.first()
    return [] if service is None else [call.call for _, call in queue.batch(service)]


def test_calls_of_a_run_that_is_over_are_not_computed() -> None:
    over: set[str] = set()
    queue = ServiceQueue({"s": 8, "t": 1})
    for run, service in (("a", "s"), ("b", "t"), ("b", "t"), ("c", "s")):
        queue.add(Queued(f"{run}/1", service, b"", lambda _: None, lambda run=run: run in over))
    over.add("a")
    assert batch(queue) == ["b/1"]
    over.add("b")
    assert batch(queue) == ["c/1"]
    assert batch(queue) == []
    assert len(queue) == 0
