"""Memory of pieces: lent for the time of a copy, or shared between the processes of a node."""

import fcntl
import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from agents.transfer.errors import StoreFullError

Memory = Callable[[], AbstractContextManager[Sequence[memoryview]]]
"""Inside, parts that may be read or written. Raises BlobGoneError once they belong to another blob."""


class Segment:
    """Memory without a name, whose descriptor processes pass on: when the last of them ends, even killed, nothing is
    left of it."""

    def __init__(self, descriptor: int) -> None:
        """Owns the descriptor from here on."""
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def allocate(cls, size: int) -> "Segment":
        """Memory of this size for good, so that nobody's reads fail. Raises StoreFullError."""
        try:
            segment = cls(os.memfd_create("medley-piece", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
            os.ftruncate(segment.descriptor, size)
        except OSError as error:
            raise StoreFullError(f"the system has no room for a piece of {size} bytes: {error}") from error
        fcntl.fcntl(segment.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return segment

    def view(self) -> memoryview:
        """Its bytes to read, which stay for as long as the view is held."""
        return self._view(mmap.ACCESS_READ)

    def memory(self) -> Memory:
        """Its bytes to write, as an engine lends them."""
        view = self.writable()
        return lambda: nullcontext((view,))

    def writable(self) -> memoryview:
        """Its bytes to write, which stay for as long as the view is held. Raises PermissionError."""
        return self._view(mmap.ACCESS_WRITE)

    def _view(self, access: int) -> memoryview:
        size = os.fstat(self.descriptor).st_size
        return memoryview(mmap.mmap(self.descriptor, size, access=access) if size else bytearray())
