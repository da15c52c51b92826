"""A file that one process at a time may hold. The kernel frees it however its holder ends."""

import fcntl
from typing import IO


def try_lock(file: IO[bytes]) -> bool:
    """Hold it now, or say that somebody else does. It is held until the file is closed, or unlocked with flock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
