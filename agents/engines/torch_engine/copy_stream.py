"""Stream on which an engine copies KV cache: on a GPU one of its own."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch


class StepMarks:
    """Where a step is on the steps' stream: at its beginning, and behind each layer so far. Nowhere on a CPU, which has
    written what it says."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: list[torch.cuda.Event] = []
        self.add()

    def add(self) -> None:
        if self._device.type == "cuda":
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(self._device))
            self._events.append(event)

    def behind(self, layers: int) -> torch.cuda.Event:
        """Return the mark behind so many layers, or the latest: what is copied was then computed by steps before."""
        return self._events[min(layers, len(self._events) - 1)]


class CopyStream:
    """A stream for copies alone: work on a stream waits for all that was put on it before, and a step is put there as a
    whole, so that on the steps' stream each chunk of a hand-off would wait for the step under way. A CPU has no
    streams: nothing is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._marks: dict[str, StepMarks] = {}
        """Of the latest step of each request."""

    def begin(self, request_ids: Iterable[str]) -> StepMarks:
        """A step of these requests begins."""
        marks = StepMarks(self._device)
        if self._stream is not None:
            self._marks.update(dict.fromkeys(request_ids, marks))
        return marks

    def forget(self, request_id: str) -> None:
        self._marks.pop(request_id, None)

    def wait_for_steps(self) -> None:
        """Begin later copies behind the steps asked for so far. To be called when blocks change hands: such a step may
        still use them. Called from any thread: all ask for steps of the device's own stream."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))

    @contextmanager
    def copying(self, request_id: str = "", layers: int = 0) -> Iterator[None]:
        """Run the block's copies on the stream, behind the first `layers` of the request's latest step; they are done
        at its end. Called from any thread."""
        if self._stream is None:
            yield
            return
        if (marks := self._marks.get(request_id)) is not None:
            self._stream.wait_event(marks.behind(layers))
        with torch.cuda.stream(self._stream):
            yield
            self._stream.synchronize()
