"""The owner of a pool: it has the memory, and lends blocks of it to engines of other processes on this machine.

The memory is a file without a name, which engines get with the answer to their first message: it is gone with the last
process that has it. A connection that ends says nothing of a process, which may still write: its blocks come back when
the process is known to be dead.
"""

import mmap
import os
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agents.kv_pool.block_ledger import BlockLedger
from agents.kv_pool.messages import (
    BLOCKS_A_PACKET,
    PACKET_BYTES,
    Asked,
    Give,
    Join,
    Joined,
    Take,
    Taken,
    decode_asked,
    encode,
)

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer (`SO_PEERCRED`)."""
_PAUSE_S = 0.05
"""Until a connection that could not be accepted is tried again."""


@dataclass(slots=True, eq=False)
class _Engine:
    """A process that is, or was, connected."""

    socket: socket.socket
    process: int
    """A descriptor that can be read once it is dead."""
    member: int | None = None


class PoolOwner:
    """Use: `start`, and `close` when the engines are gone. `lock` is held while the ledger changes: who changes quotas
    holds it, too."""

    def __init__(self, ledger: BlockLedger, blocks: int, block_bytes: int, path: Path) -> None:
        """`path`: of the socket, in a folder that no other user can enter. Raises OSError, for memory that the machine
        does not have, too."""
        self.lock = threading.Lock()
        self._ledger, self._size = ledger, Joined(blocks, block_bytes)
        self._memory = os.memfd_create("medley-kv-pool", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(self._memory, 0, max(blocks * block_bytes, mmap.PAGESIZE))
        except OSError:
            os.close(self._memory)
            raise
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.setblocking(False)
        self._wake, self._woken = os.pipe()
        self._all: set[_Engine] = set()
        self._engines: dict[int, _Engine] = {}
        """Member → the process that has, or may have, blocks."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._serve, name="kv-pool", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the connections; engines that still run keep the memory."""
        os.write(self._woken, b"x")
        self._thread.join()
        self._selector.close()
        for engine in self._all:
            engine.socket.close()
            os.close(engine.process)
        self._listener.close()
        self._path.unlink(missing_ok=True)
        for descriptor in (self._wake, self._woken, self._memory):
            os.close(descriptor)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                key.data()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            # Such as no descriptor that is free: who is connected is served on, and not at the price of a whole core.
            time.sleep(_PAUSE_S)
            return
        pid, user, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user != os.getuid():
            connection.close()
            return
        try:
            process = os.pidfd_open(pid)
        except OSError:
            # It is dead, in another namespace of processes (its number is 0 here), or there is no descriptor for it:
            # whose end is not seen gets no blocks.
            connection.close()
            return
        engine = _Engine(connection, process)
        self._all.add(engine)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(engine))

    def _read(self, engine: _Engine) -> None:
        try:
            packet = engine.socket.recv(PACKET_BYTES)
            if packet:
                self._answer(engine, decode_asked(packet))
                return
        except (OSError, ValueError, msgspec.DecodeError):
            # Who breaks the protocol is not heard any more: it keeps its blocks for as long as it lives.
            pass
        self._part(engine)

    def _answer(self, engine: _Engine, asked: Asked) -> None:
        """Raises ValueError for what the engine may not ask."""
        if isinstance(asked, Join):
            self._join(engine, asked.member)
            return
        if engine.member is None:
            raise ValueError("an engine says first whose it is")
        with self.lock:
            if isinstance(asked, Give):
                self._ledger.give_back(engine.member, asked.blocks)
                return
            taken: list[int] = []
            if isinstance(asked, Take):
                fits = 0 <= asked.count <= min(self._ledger.left(engine.member), BLOCKS_A_PACKET)
                taken = self._ledger.take(engine.member, asked.count) if fits else []
            answer = Taken(taken, self._ledger.left(engine.member))
        engine.socket.send(encode(answer))

    def _join(self, engine: _Engine, member: int) -> None:
        if engine.member is not None or member in self._engines or not 0 <= member < self._ledger.members:
            raise ValueError(f"member {member} is none, or has a process already")
        engine.member = member
        self._engines[member] = engine
        socket.send_fds(engine.socket, [encode(self._size)], [self._memory])

    def _part(self, engine: _Engine) -> None:
        """The connection is over; wait for the process, if it has, or may have, blocks."""
        self._selector.unregister(engine.socket)
        engine.socket.close()
        if engine.member is None:
            self._forget(engine)
            return
        self._selector.register(engine.process, selectors.EVENT_READ, lambda: self._bury(engine))

    def _bury(self, engine: _Engine) -> None:
        self._selector.unregister(engine.process)
        self._forget(engine)
        if engine.member is not None:
            del self._engines[engine.member]
            with self.lock:
                self._ledger.reclaim([engine.member])

    def _forget(self, engine: _Engine) -> None:
        self._all.discard(engine)
        os.close(engine.process)
