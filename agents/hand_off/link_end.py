"""One end of a link: a gloo group of two between a prefill node and a decode node, over CPU memory.

Chunks behind their headers go one way, acknowledgements the other way. Nothing leaves before the other end has asked
for it, so an end holds no more than that. What goes wrong leaves the link unusable: it is closed and connected anew
under another name.

Chunks take turns on several connections ("lanes"), one at a time on each; acknowledgements have one of their own. This
is because a thread that sends or asks holds the connection's lock, and gloo's own thread, which moves the bytes of all
connections, then polls for whatever comes over that one until it can have the lock. On one connection chunks come while
the next are asked for, and this polling takes a third of the time of two processors. On a lane nothing comes before it
is asked for, and nothing is asked for while something comes.
"""

from datetime import timedelta
from itertools import cycle
from typing import Any

import torch
from torch.distributed import Work

from agents.edges.errors import EdgeLostError
from agents.edges.pair import connect_pair, first_line
from agents.edges.rendezvous import join
from agents.hand_off.settings import HandOffSettings

UNHEARD_ANSWERS = 2
"""Acknowledgements that may be on their way before an end waits for one."""

_FOREVER_S = 86400.0 * 365


class LinkLostError(Exception):
    """The other end is gone, or silent for too long: connect anew."""


class LinkEnd:
    def __init__(self, name: str, rank: int, at: tuple[str, int], device: Any, settings: HandOffSettings) -> None:
        """Waits for the other end. `at`: host and port of the rendezvous. Raises LinkLostError."""
        self.name = name
        self._other = 1 - rank
        self._timeout_s = settings.stall_s
        self._answers = settings.lanes
        """Their connection; those before are lanes."""
        self._turns = cycle(range(settings.lanes))
        try:
            store = join(*at, self._timeout_s)
            self._pair = connect_pair(store, name, rank, device, self._timeout_s, self._answers + 1)
        except (EdgeLostError, RuntimeError) as error:
            raise LinkLostError(first_line(error)) from error

    def send_chunk(self, frame: torch.Tensor) -> Work:
        """Begins to send; hold on to the tensor until the work is done."""
        return self._send(frame, next(self._turns))

    def ask_chunk(self, frame: torch.Tensor) -> Work:
        """Begins to receive; what comes may be shorter than the tensor. Chunks are asked for in the order in which they
        are sent, as many at a time as there are lanes."""
        return self._ask(frame, next(self._turns))

    def send_answer(self, answer: torch.Tensor) -> Work:
        return self._send(answer, self._answers)

    def ask_answer(self, answer: torch.Tensor) -> Work:
        return self._ask(answer, self._answers)

    def finish(self, work: Work, is_due: bool = True) -> None:
        """`is_due`: the other end is about to do its part; otherwise it may take as long as it likes."""
        try:
            work.wait(timedelta(seconds=self._timeout_s if is_due else _FOREVER_S))
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def close(self) -> None:
        """From any thread: whoever waits, here or at the other end, raises LinkLostError. (gloo's own `abort` leaves a
        receive waiting; one that times out closes its connection.)"""
        connections = self._answers + 1
        for connection in range(connections):
            nothing = connections + connection  # a tag of that connection under which nothing is ever sent
            try:
                self._pair.recv([torch.empty(1)], self._other, nothing).wait(timedelta(milliseconds=1))
            except RuntimeError:
                continue

    def _send(self, tensor: torch.Tensor, tag: int) -> Work:
        try:
            return self._pair.send([tensor], self._other, tag)
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error

    def _ask(self, tensor: torch.Tensor, tag: int) -> Work:
        try:
            return self._pair.recv([tensor], self._other, tag)
        except RuntimeError as error:
            raise LinkLostError(first_line(error)) from error
