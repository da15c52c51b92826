"""What a gateway has open and holds in memory, added up over all of its processes without a wait.

Each process has a row of numbers in memory that all share. It alone writes that row and reads all of them, so that a
bound of the whole gateway is checked in a microsecond, and what a process held that has ended is free once its row is
cleared. Two that look in the same moment may both take what is left: a bound is passed by no more than what the other
processes take at once.
"""

import mmap
from enum import IntEnum
from zlib import crc32

from policies.fair_order import Account


class Counted(IntEnum):
    OPEN_CALLS = 0
    """Answers of tokens that are being given."""
    OPEN_MADE = 1
    """The same of sound and pictures."""
    OPEN_RUNS = 2
    """Requests that wait for runs of workflows."""
    BODY_BYTES = 3
    """Bodies of all accounts, until they are tokens."""
    PIECE_BYTES = 4
    """Sound and pictures that clients have not taken."""


_ACCOUNTS = 1024
"""Cells for bodies of accounts; two accounts with the same cell are one in the eyes of other processes."""
_COLUMNS = len(Counted) + _ACCOUNTS
_CELL_BYTES = 8


class Counts:
    """The numbers as one process sees them."""

    def __init__(self, cells: memoryview, own: int) -> None:
        """`cells`: zeros at first, of `shared_bytes(processes)`. `own`: number of this process, from 0."""
        self._cells = cells.cast("q")
        self._own = own * _COLUMNS
        self.processes = len(self._cells) // _COLUMNS

    @classmethod
    def of_one(cls) -> "Counts":
        """Return those of a process that is a gateway alone."""
        return cls(memoryview(bytearray(shared_bytes(1))), 0)

    @classmethod
    def shared(cls, descriptor: int, own: int) -> "Counts":
        """Return those of processes that have this file, of `shared_bytes`, in common."""
        return cls(memoryview(mmap.mmap(descriptor, 0)), own)

    def total(self, what: Counted) -> int:
        """Of all processes."""
        return sum(self._cells[what::_COLUMNS])

    def add(self, what: Counted, more: int) -> None:
        """Note so many more, or (below 0) fewer, of this process."""
        self._cells[self._own + what] += more

    def others_hold(self, account: Account) -> int:
        """Bytes of bodies that an account has at other processes."""
        if self.processes == 1:
            return 0
        column = _column(account)
        return sum(self._cells[column::_COLUMNS]) - self._cells[self._own + column]

    def add_body(self, account: Account, more: int) -> None:
        """Note so many more bytes of bodies, or (below 0) fewer, of this process."""
        self.add(Counted.BODY_BYTES, more)
        if self.processes > 1:
            self._cells[self._own + _column(account)] += more

    def clear(self, process: int) -> None:
        """That process has ended: it has nothing open and holds nothing."""
        start = process * _COLUMNS
        self._cells[start : start + _COLUMNS] = memoryview(bytes(_COLUMNS * _CELL_BYTES)).cast("q")


def shared_bytes(processes: int) -> int:
    """Size of the memory for so many."""
    return processes * _COLUMNS * _CELL_BYTES


def _column(account: Account) -> int:
    # Not `hash`: that of a text is another one in each process.
    return len(Counted) + crc32("\0".join(account).encode()) % _ACCOUNTS
