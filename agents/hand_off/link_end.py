"""One end of a link: a gloo group of two between a prefill node and a decode node, over CPU memory.

Chunks go one way, each behind its header, and acknowledgements the other way. What goes wrong leaves the link unusable:
it is closed and connected anew under another name.
"""

from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work

from agents.edges.errors import EdgeLostError
from agents.edges.pair import connect_pair, first_line
from agents.edges.rendezvous import join

_FOREVER_S = 86400.0 * 365
_DATA, _NOTHING = 0, 1
"""Tags; nothing is ever sent under the second."""


class LinkLostError(Exception):
    """The other end is gone, or silent for too long: connect anew."""


class LinkEnd:
    def __init__(self, name: str, rank: int, at: tuple[str, int], device: Any, timeout_s: float) -> None:
        """Waits for the other end. `at`: host and port of the rendezvous. Raises LinkLostError."""
        self.name = name
        self._other = 1 - rank
        self._timeout_s = timeout_s
        try:
            self._pair = connect_pair(join(*at, timeout_s), name, rank, device, timeout_s)
        except (EdgeLostError, RuntimeError) as error:
            raise LinkLostError(first_line(error)) from error

    def send(self, tensor: torch.Tensor) -> Work:
        """Begins to send; hold on to the tensor until the work is done."""
        try:
            return self._pair.send([tensor], self._other, _DATA)
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def finish(self, work: Work) -> None:
        try:
            work.wait(timedelta(seconds=self._timeout_s))
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def receive(self, tensor: torch.Tensor, is_due: bool = True) -> None:
        """Fill the tensor. `is_due`: the other end is about to send; otherwise it may take as long as it likes."""
        try:
            timeout_s = self._timeout_s if is_due else _FOREVER_S
            self._pair.recv([tensor], self._other, _DATA).wait(timedelta(seconds=timeout_s))
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def close(self) -> None:
        """From any thread: whoever waits, here or at the other end, raises LinkLostError. (gloo's own `abort` leaves a
        receive waiting; one that times out closes the connection.)"""
        try:
            self._pair.recv([torch.empty(1)], self._other, _NOTHING).wait(timedelta(milliseconds=1))
        except RuntimeError:
            return
