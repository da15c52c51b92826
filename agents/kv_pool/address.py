"""Addresses of sockets that are files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def address(path: Path) -> Iterator[str]:
    """Yield a name of the file `path` that fits a socket's address, of 107 bytes, however long its folder's is (Linux).
    Raises OSError where there is no such folder."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
