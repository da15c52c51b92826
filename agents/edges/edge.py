"""One edge: rows of activations between two processes, in order.

A group of two (`pair`). Its errors leave it unusable, so an edge that failed once stays failed. No object collectives:
they pickle.
"""

from collections import deque
from datetime import timedelta

import torch
from torch.distributed import Store, Work  # type: ignore[attr-defined]

from agents.edges.errors import BadRowsError, EdgeLostError
from agents.edges.pair import RECEIVER, SENDER, Pair, connect_pair, first_line, gloo_device
from agents.edges.settings import EdgeSettings


def connect_sender(store: Store, name: str, settings: EdgeSettings) -> "Sender":
    """Waits for the other end. Raises EdgeLostError where it does not come."""
    return Sender(name, _group(store, name, SENDER, settings), settings)


def connect_receiver(store: Store, name: str, settings: EdgeSettings) -> "Receiver":
    """Waits for the other end. Raises EdgeLostError where it does not come."""
    return Receiver(name, _group(store, name, RECEIVER, settings), settings)


def _group(store: Store, name: str, rank: int, settings: EdgeSettings) -> Pair:
    return connect_pair(store, name, rank, gloo_device(settings.interface), settings.peer_timeout_s)


class Sender:
    def __init__(self, name: str, group: Pair, settings: EdgeSettings) -> None:
        self.name = name
        self._group = group
        self._settings = settings
        self._unsent: deque[tuple[Work, torch.Tensor]] = deque()
        """With the rows, which must not be freed before they are sent."""

    def send(self, rows: torch.Tensor) -> None:
        """`rows`: (n, hidden size), n ≥ 1. Returns before they are received, unless the peer is `unsent` sends behind.

        Raises BadRowsError, and EdgeLostError for this or an earlier send."""
        settings = self._settings
        _check(rows.shape[0], settings)
        if rows.dim() != 2 or rows.shape[1] != settings.hidden_size or rows.dtype != settings.dtype:
            raise BadRowsError(f"{self.name} carries rows of {settings.hidden_size} {settings.dtype}, not {rows.shape}")
        while len(self._unsent) >= settings.unsent:
            self._wait()
        held = rows.cpu().contiguous()
        try:
            self._unsent.append((self._group.send([held], RECEIVER, 0), held))
        except RuntimeError as error:
            raise EdgeLostError(f"{self.name} is lost: {first_line(error)}") from error

    def flush(self) -> None:
        """Returns once everything is received. Raises EdgeLostError."""
        while self._unsent:
            self._wait()

    def _wait(self) -> None:
        work, _rows = self._unsent[0]
        try:
            work.wait(timedelta(seconds=self._settings.peer_timeout_s))
        except RuntimeError as error:
            raise EdgeLostError(f"{self.name} is lost: {first_line(error)}") from error
        self._unsent.popleft()


class Receiver:
    def __init__(self, name: str, group: Pair, settings: EdgeSettings) -> None:
        self.name = name
        self._group = group
        self._settings = settings

    def receive(self, rows: int) -> torch.Tensor:
        """The next `rows` rows, as the sender sent them in one piece: (rows, hidden size).

        Raises BadRowsError, and EdgeLostError when they do not come."""
        settings = self._settings
        _check(rows, settings)
        received = torch.empty(rows, settings.hidden_size, dtype=settings.dtype)
        try:
            self._group.recv([received], SENDER, 0).wait(timedelta(seconds=settings.peer_timeout_s))
        except RuntimeError as error:
            raise EdgeLostError(f"{self.name} is lost: {first_line(error)}") from error
        return received


def _check(rows: int, settings: EdgeSettings) -> None:
    if not 1 <= rows <= settings.max_rows:
        raise BadRowsError(f"a step has 1 to {settings.max_rows} rows, not {rows}")
