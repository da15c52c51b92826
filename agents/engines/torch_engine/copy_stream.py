"""Stream on which an engine copies KV cache: on a GPU one of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class CopyStream:
    """A stream for copies alone: work on a stream waits for all that was put on it before, and a step is put there as a
    whole, so that on the steps' stream each chunk of a hand-off would wait for the step under way. A CPU has no
    streams: nothing is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def wait_for_steps(self) -> None:
        """Begin later copies behind the steps asked for so far. To be called when blocks change hands: such a step may
        still use them. Called from any thread: all ask for steps of the device's own stream."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Run the block's copies on the stream; they are done at its end. Called from any thread."""
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield
            self._stream.synchronize()
