"""One edge: rows of activations between two processes, in order.

A group of two: NCCL between two GPUs where that works (`nccl_pair`), which leaves rows on them; else gloo (`pair`), by
way of CPU memory. Its errors leave it unusable, so an edge that failed once stays failed. No object collectives: they
pickle.
"""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Store, Work  # type: ignore[attr-defined]

from agents.edges.nccl_pair import connect_nccl_pair
from agents.edges.pair import RECEIVER, SENDER, Pair, connect_pair, gloo_device
from agents.edges.settings import EdgeSettings
from agents.transfer.errors import LinkLostError, TransferError
from agents.transfer.rendezvous import first_line

Gloo = Callable[[], Any]
"""Gives the `gloo_device` of an edge: its thread looks for work a hundred times a second, so edges may share one."""


class BadRowsError(TransferError):
    """The rows are more than agreed, or of another shape or type: the caller's bug. Nothing was sent."""


def connect_sender(store: Store, name: str, settings: EdgeSettings, gloo: Gloo | None = None) -> "Sender":
    """Waits for the other end. `gloo`: where it is not to have one of its own. Raises LinkLostError where the other end
    does not come."""
    return Sender(name, *_group(store, name, SENDER, settings, gloo), settings)


def connect_receiver(store: Store, name: str, settings: EdgeSettings, gloo: Gloo | None = None) -> "Receiver":
    """Waits for the other end as `connect_sender` does."""
    return Receiver(name, *_group(store, name, RECEIVER, settings, gloo), settings)


def _group(store: Store, name: str, rank: int, settings: EdgeSettings, gloo: Gloo | None) -> tuple[Pair, torch.device]:
    """Connects the group, and tells where its rows have to lie."""
    interface, timeout_s = settings.interface, settings.peer_timeout_s
    if settings.tries_nccl:
        pair = connect_nccl_pair(store, name, rank, settings.device, interface, timeout_s)
        if pair is not None:
            return pair, settings.device
    device = gloo() if gloo else gloo_device(interface)
    return connect_pair(store, name, rank, device, timeout_s), torch.device("cpu")


class Sender:
    def __init__(self, name: str, group: Pair, device: torch.device, settings: EdgeSettings) -> None:
        self.name = name
        self._group = group
        self._device = device
        self._settings = settings
        self._unsent: deque[tuple[Work, torch.Tensor]] = deque()
        """Sends under way with their rows, which must not be freed before they are sent."""

    def send(self, rows: torch.Tensor) -> None:
        """Send `rows`, (n, hidden size), n ≥ 1. Returns before they are received, unless the peer is `unsent` sends
        behind.

        Raises BadRowsError, and LinkLostError for this or an earlier send."""
        settings = self._settings
        _check(rows.shape[0], settings)
        if rows.dim() != 2 or rows.shape[1] != settings.hidden_size or rows.dtype != settings.dtype:
            raise BadRowsError(f"{self.name} carries rows of {settings.hidden_size} {settings.dtype}, not {rows.shape}")
        while len(self._unsent) >= settings.unsent:
            self._wait()
        held = rows.to(self._device).contiguous()
        try:
            self._unsent.append((self._group.send([held], RECEIVER, 0), held))
        except RuntimeError as error:
            raise LinkLostError(f"{self.name} is lost: {first_line(error)}") from error

    def flush(self) -> None:
        """Returns once everything is received. Raises LinkLostError."""
        while self._unsent:
            self._wait()

    def _wait(self) -> None:
        work, _rows = self._unsent[0]
        try:
            work.wait(timedelta(seconds=self._settings.peer_timeout_s))
        except RuntimeError as error:
            raise LinkLostError(f"{self.name} is lost: {first_line(error)}") from error
        self._unsent.popleft()


class Receiver:
    def __init__(self, name: str, group: Pair, device: torch.device, settings: EdgeSettings) -> None:
        self.name = name
        self._group = group
        self._device = device
        self._settings = settings

    def receive(self, rows: int) -> torch.Tensor:
        """Receives the next `rows` rows, as the sender sent them in one piece: (rows, hidden size).

        From a GPU to a GPU it returns before they are there, and what is queued on the current stream waits for them.
        Raises BadRowsError, and LinkLostError when they do not come; NCCL then ends the process."""
        settings = self._settings
        _check(rows, settings)
        received = torch.empty(rows, settings.hidden_size, dtype=settings.dtype, device=self._device)
        try:
            self._group.recv([received], SENDER, 0).wait()  # the group's own time-out holds
        except RuntimeError as error:
            raise LinkLostError(f"{self.name} is lost: {first_line(error)}") from error
        return received


def _check(rows: int, settings: EdgeSettings) -> None:
    if not 1 <= rows <= settings.max_rows:
        raise BadRowsError(f"a step has 1 to {settings.max_rows} rows, not {rows}")
