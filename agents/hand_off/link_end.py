"""One end of a link: a gloo group of two between a prefill node and a decode node, over CPU memory.

Chunks and their headers go one way, acknowledgements the other way. Whoever receives asks before anything is sent, so
that gloo need not hold the sender up to find out whether there is room: both ends know how much may be under way. What
goes wrong leaves the link unusable: it is closed and connected anew under another name.
"""

from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work

from agents.edges.errors import EdgeLostError
from agents.edges.pair import connect_pair, first_line
from agents.edges.rendezvous import join

HEADERS, CHUNKS, ACKNOWLEDGEMENTS, _NOTHING = range(4)
"""Tags: order is kept within each. Nothing is ever sent under the last."""

_FOREVER_S = 86400.0 * 365


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

    def send(self, tensor: torch.Tensor, tag: int) -> Work:
        """Begins to send; hold on to the tensor until the work is done."""
        try:
            return self._pair.send([tensor], self._other, tag)
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def ask(self, tensor: torch.Tensor, tag: int) -> Work:
        """Begins to receive; what comes may be shorter than the tensor."""
        try:
            return self._pair.recv([tensor], self._other, tag)
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def finish(self, work: Work, is_due: bool = True) -> None:
        """`is_due`: the other end is about to do its part; otherwise it may take as long as it likes."""
        try:
            work.wait(timedelta(seconds=self._timeout_s if is_due else _FOREVER_S))
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def close(self) -> None:
        """From any thread: whoever waits, here or at the other end, raises LinkLostError. (gloo's own `abort` leaves a
        receive waiting; one that times out closes the connection.)"""
        try:
            self._pair.recv([torch.empty(1)], self._other, _NOTHING).wait(timedelta(milliseconds=1))
        except RuntimeError:
            return
