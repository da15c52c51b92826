"""Files that one process at a time may hold. The kernel frees them however their holder ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Hold alone what `path` stands for, among all processes and threads, for as long as the block; waits for it.

    The file is made where it is missing, and stays: were it removed, two could hold files of the same name. Its folder
    has to be there. Raises OSError when it cannot be opened.
    """
    with path.open("ab") as file:
        lock(file)
        yield


def lock(file: IO[bytes], *, shared: bool = False) -> None:
    """Hold it, alone or with others that share it, once whoever holds it otherwise lets go. It is held until the file
    is closed, also in processes that were forked from this one, or unlocked."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(file: IO[bytes]) -> bool:
    """Hold it alone now, or say that somebody else does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: IO[bytes]) -> None:
    """Unlock by name, so that a forked child that still has a copy of the descriptor does not hold the lock."""
    fcntl.flock(file, fcntl.LOCK_UN)
